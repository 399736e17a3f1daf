//! Which arguments of `nephila add` are URLs and which is the job.

use clap::Parser;

fn settled(line: &[&str]) -> anyhow::Result<(String, Vec<String>)> {
    let cli = crate::cli::Cli::parse_from(["nephila", "add"].iter().chain(line));
    let crate::cli::Command::Add(mut args) = cli.command else { unreachable!("add was asked for") };
    args.settle()?;
    Ok((args.job, args.urls))
}

#[test]
fn fin_10_urls_are_urls_and_a_job_is_named() {
    let (one, two) = ("http://a.test/", "b.test/x");
    for (line, job, urls) in [
        (&[one, two, "-o", "d"][..], "", &[one, two][..]),
        (&[one, "-o", "d"], "", &[one]),
        (&["localhost", "-o", "d"], "", &["localhost"]),
        (&["a.test", "-o", "d"], "", &["a.test"]),
        (&["docs", one, "-o", "d"], "docs", &[one]),
        (&["docs", "-i", "list", "-o", "d"], "docs", &[]),
        (&["docs", "--reflog", "-", "-o", "d"], "docs", &[]),
        (&["--job", "docs", one, two, "--node", "http://n.test"], "docs", &[one, two]),
        (&["-", "-o", "d"], "", &["-"]),
        (&["-i", "list", "-o", "d"], "", &[]),
    ] {
        let want = (job.to_owned(), urls.iter().map(|url| (*url).to_owned()).collect());
        assert_eq!(settled(line).unwrap(), want, "{line:?}");
    }
    for bad in [&["-o", "d"][..], &[one], &["docs", "--reflog", "-", one, "-o", "d"]] {
        let error = settled(bad).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&nephila_engine::exit::Exit::Usage), "{bad:?}");
    }
}
