//! A crawl inside another program.

#[path = "../examples/site/mod.rs"]
mod site;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nephila_core::stop_list::StopOrder;
use nephila_engine::Crawl;
use nephila_engine::folder::Folder;
use nephila_engine::stop_list::{self, Change};

#[tokio::test(flavor = "multi_thread")]
async fn pol_19_an_embedded_crawl_obeys_the_stop_list_of_its_folder() {
    let (url, dir) = (site::start().unwrap(), tempfile::tempdir().unwrap());
    let (seen, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let crawl = |seen: Arc<AtomicUsize>| {
        let builder = Crawl::builder().seed(&url).allow_private_seeds().settings(site::settings());
        let builder = builder.folder(dir.path()).stop(stop.clone());
        builder.on_page(move |_| _ = seen.fetch_add(1, Ordering::SeqCst))
    };
    let target = "127.0.0.1".parse().unwrap();
    let order = StopOrder { target, reason: "mail".to_owned(), author: "test".to_owned(), at: 0 };
    let folder = Folder::new(dir.path());
    std::fs::create_dir_all(folder.state()).unwrap();
    stop_list::change(&folder, &Change::Add(vec![order])).unwrap();
    let until = tokio::spawn(crawl(seen.clone()).run());
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.notify_one();
    until.await.unwrap().unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 0, "not one page of a stopped site");
}
