//! A small shop on a loopback address, for the examples.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use nephila_engine::Settings;

const PAGES: [(&str, &str); 4] = [
    ("/", r#"<title>Shop</title><a href="/tea">Tea</a> <a href="/cups">Cups</a> <a href="/about">About</a>"#),
    ("/tea", r#"<title>Tea</title><p>Green tea, <b class="price">4.20 EUR</b></p>"#),
    ("/cups", r#"<title>Cups</title><p>Two cups, <b class="price">18.00 EUR</b></p>"#),
    ("/about", r#"<title>About</title><p>We sell tea and cups.</p>"#),
];

/// Starts the shop on a thread; returns its URL.
pub(crate) fn start() -> std::io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("http://{}/", listener.local_addr()?);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let path = lines.next().and_then(|line| Some(line.split(' ').nth(1)?.to_owned()));
            _ = lines.find(String::is_empty);
            let page = PAGES.iter().find(|(known, _)| path.as_deref() == Some(known));
            let (status, body) = page.map_or(("404 Not Found", "no such page"), |(_, body)| ("200 OK", body));
            let head =
                format!("content-type: text/html\r\ncontent-length: {}\r\nconnection: close", body.len());
            _ = write!(stream, "HTTP/1.1 {status}\r\n{head}\r\n\r\n{body}");
        }
    });
    Ok(url)
}

/// Settings for a site of one's own: a short rest between two requests.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.set_host_delay(Duration::from_millis(50));
    settings
}
