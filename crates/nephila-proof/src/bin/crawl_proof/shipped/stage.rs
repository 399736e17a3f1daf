//! Where a situation takes place: its sites, its names, its command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::web::{Answers, Ask, Dress, Lookup, Names, Reply, Said, Site, Time};

/// One situation being set up.
pub struct Stage {
    /// Its time.
    pub time: Time,
    /// Its sites.
    pub sites: Vec<Site>,
    /// Its resolver.
    pub names: Option<Names>,
    /// Where the crawl begins.
    pub seeds: Vec<String>,
    /// Further flags: only flags that a user would give in this situation.
    pub args: Vec<String>,
    /// Commands that are run after an interruption, before the crawl goes on; `-o crawl` is added.
    pub between: Vec<Vec<String>>,
    number: u8,
    addresses: u8,
}

/// A function that gives the unusual answers.
pub type Odd = fn(&Ask) -> Option<Reply>;

impl Stage {
    /// An empty one, with addresses of its own.
    pub fn new(number: u8, time: Time) -> Stage {
        let (sites, seeds, args, between) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Stage { time, sites, names: None, seeds, args, between, number, addresses: 0 }
    }

    /// The next address of this situation.
    pub fn address(&mut self) -> IpAddr {
        self.addresses += 1;
        IpAddr::V4(Ipv4Addr::new(127, 77, self.number, self.addresses))
    }

    /// A site of a home page and this number of others, all linked from the home page; some answers may be odd. Its
    /// home page is a seed.
    pub fn site(&mut self, pages: u32, odd: Odd) -> std::io::Result<SocketAddr> {
        let address = self.address();
        let site = Site::start(address, &self.time, usual(pages, odd), None)?;
        let address = site.address();
        self.sites.push(site);
        self.seeds.push(format!("http://{address}/"));
        Ok(address)
    }

    /// The same over TLS.
    pub fn site_over_tls(&mut self, pages: u32, dress: Dress) -> std::io::Result<SocketAddr> {
        let address = self.address();
        let site = Site::start(address, &self.time, usual(pages, |_| None), Some(dress))?;
        let address = site.address();
        self.sites.push(site);
        self.seeds.push(format!("https://{address}/"));
        Ok(address)
    }

    /// A site under a name. The resolver's answers for the name are set apart.
    pub fn named_site(
        &mut self,
        pages: u32,
        odd: Odd,
        lookup: fn(Duration, IpAddr) -> Said,
    ) -> std::io::Result<()> {
        let address = self.site(pages, odd)?;
        self.seeds.pop();
        let answers: Lookup = Arc::new(move |_, at| lookup(at, address.ip()));
        let resolver = self.address();
        self.names = Some(Names::start(resolver, &self.time, answers)?);
        self.seeds.push(format!("http://site.example:{}/", address.port()));
        Ok(())
    }

    /// A port without a listener.
    pub fn closed_port(&mut self) -> std::io::Result<SocketAddr> {
        let address = self.address();
        let listener = std::net::TcpListener::bind(SocketAddr::new(address, 0))?;
        listener.local_addr()
    }

    /// Command line arguments.
    pub fn say(&mut self, args: &[&str]) {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
    }

    /// The command that begins the crawl. No setting is changed but addresses and names.
    pub fn command(&self) -> Vec<String> {
        let mut args: Vec<String> =
            ["crawl", "--progress", "json", "-o", "crawl"].map(str::to_owned).to_vec();
        args.extend(self.seeds.iter().cloned());
        args.extend(self.args.iter().cloned());
        args.extend(self.names_and_addresses());
        args
    }

    /// The command that continues the crawl.
    pub fn again(&self) -> Vec<String> {
        let mut args: Vec<String> =
            ["crawl", "--progress", "json", "-o", "crawl"].map(str::to_owned).to_vec();
        args.extend(self.names_and_addresses());
        args
    }

    fn names_and_addresses(&self) -> Vec<String> {
        let ports: Vec<String> = self.sites.iter().map(|site| site.address().port().to_string()).collect();
        let ports = [vec!["80".to_owned(), "443".to_owned()], ports].concat().join(", ");
        let mut set =
            vec!["spider.allow_addresses=[\"127.0.0.0/8\"]".to_owned(), format!("spider.ports=[{ports}]")];
        if let Some(names) = &self.names {
            set.push(format!("spider.dns_servers=[\"{}\"]", names.address()));
        }
        let contact = ["--contact".to_owned(), "proof@example.org".to_owned()];
        contact.into_iter().chain(set.into_iter().flat_map(|pair| ["--set".to_owned(), pair])).collect()
    }
}

/// A home page that links to this number of others, and no robots.txt.
fn usual(pages: u32, odd: Odd) -> Answers {
    Arc::new(move |ask: &Ask| {
        if let Some(reply) = odd(ask) {
            return reply;
        }
        let number: Option<u32> = ask.path.strip_prefix('/').and_then(|path| path.parse().ok());
        match (&*ask.path, number) {
            ("/", _) => Reply::page("home", &(1..=pages).map(|n| format!("/{n}")).collect::<Vec<_>>()),
            (_, Some(number)) if number <= pages => Reply::page(&format!("page {number}"), &[]),
            _ => Reply::status(404),
        }
    })
}
