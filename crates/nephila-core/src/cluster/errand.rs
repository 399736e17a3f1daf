//! Messages between two nodes about an errand, as bytes: see [`frontier::away`](crate::frontier::away).
//!
//! Invariants: damaged bytes are a [`Damaged`], never a panic; a decoded message takes no more memory than its bytes.

use std::time::Duration;

use super::NodeId;
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::frontier::away::AwayAsker;
use crate::frontier::report::{RobotsAnswer, RobotsReport};
use crate::robots::policy::RobotsResult;
use crate::url::CrawlUrl;

const MAGIC: &[u8; 2] = b"NE";
const VERSION: u8 = 1;

/// The fourth byte. These numbers never change.
mod kind {
    pub(super) const ASK: u8 = 1;
    pub(super) const ANSWER: u8 = 2;
    pub(super) const NOT_HERE: u8 = 3;
}

/// How an answer ended. These numbers never change.
mod ended {
    pub(super) const STATUS: u8 = 1;
    pub(super) const REDIRECT_LIMIT: u8 = 2;
    pub(super) const UNREACHABLE: u8 = 3;
    pub(super) const REDIRECT: u8 = 4;
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A request: fetch this URL and send back the result.
    Ask {
        /// The node and errand number that the answer goes to.
        asker: AwayAsker,
        /// The URL to fetch.
        url: Box<CrawlUrl>,
    },
    /// The result of an errand.
    Answer {
        /// The asker's number.
        number: u64,
        /// The robots.txt, a redirect, or the reason why there is neither.
        report: Box<RobotsReport>,
    },
    /// The partition of the URL is not here: ask its owner again.
    NotHere {
        /// The asker's number.
        number: u64,
    },
}

impl Said {
    /// The encoded message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from(MAGIC);
        out.push(VERSION);
        match self {
            Said::Ask { asker, url } => {
                out.push(kind::ASK);
                out.extend(asker.node.0.to_be_bytes());
                put_u64(&mut out, asker.number);
                put_bytes(&mut out, url.as_str().as_bytes());
            }
            Said::NotHere { number } => {
                out.push(kind::NOT_HERE);
                put_u64(&mut out, *number);
            }
            Said::Answer { number, report } => {
                out.push(kind::ANSWER);
                put_u64(&mut out, *number);
                match &report.answer {
                    RobotsAnswer::Ended(RobotsResult::Status(status)) => {
                        out.push(ended::STATUS);
                        put_u64(&mut out, u64::from(*status));
                    }
                    RobotsAnswer::Ended(RobotsResult::RedirectLimit) => out.push(ended::REDIRECT_LIMIT),
                    RobotsAnswer::Ended(RobotsResult::Unreachable) => out.push(ended::UNREACHABLE),
                    RobotsAnswer::Redirect(target) => {
                        out.push(ended::REDIRECT);
                        put_bytes(&mut out, target.as_str().as_bytes());
                    }
                }
                put_bytes(&mut out, &report.body);
                out.push(u8::from(report.cut));
                put_time(&mut out, report.max_age);
                put_time(&mut out, report.retry_after);
                put_time(&mut out, Some(report.took));
            }
        }
        out
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8]) -> Result<Said, Damaged> {
        let mut reader = Reader::new(bytes);
        if reader.take(2, "the mark of an errand")? != MAGIC || reader.u8("its version")? != VERSION {
            return Err(Damaged("the mark of an errand"));
        }
        let said = match reader.u8("the kind of an errand")? {
            kind::ASK => {
                let node = NodeId(reader.fixed_u64("who asks")?);
                let asker = AwayAsker { node, number: reader.u64("the number of an errand")? };
                Said::Ask { asker, url: url(&mut reader)? }
            }
            kind::NOT_HERE => Said::NotHere { number: reader.u64("the number of an errand")? },
            kind::ANSWER => {
                let number = reader.u64("the number of an errand")?;
                let answer = match reader.u8("how it ended")? {
                    ended::STATUS => {
                        let status =
                            u16::try_from(reader.u64("a status")?).map_err(|_| Damaged("a status"))?;
                        RobotsResult::Status(status).into()
                    }
                    ended::REDIRECT_LIMIT => RobotsResult::RedirectLimit.into(),
                    ended::UNREACHABLE => RobotsResult::Unreachable.into(),
                    ended::REDIRECT => RobotsAnswer::Redirect(url(&mut reader)?),
                    _ => return Err(Damaged("how it ended")),
                };
                let mut report = RobotsReport::of(answer, Duration::ZERO);
                report.body = reader.bytes("a robots.txt")?.into();
                report.cut = reader.u8("whether it was cut")? != 0;
                report.max_age = time(&mut reader)?;
                report.retry_after = time(&mut reader)?;
                report.took = time(&mut reader)?.unwrap_or_default();
                Said::Answer { number, report: Box::new(report) }
            }
            _ => return Err(Damaged("the kind of an errand")),
        };
        // Fields that a newer version adds stand behind.
        Ok(said)
    }
}

fn put_time(out: &mut Vec<u8>, time: Option<Duration>) {
    let ms = time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1).saturating_add(1));
    put_u64(out, ms);
}

fn time(reader: &mut Reader<'_>) -> Result<Option<Duration>, Damaged> {
    Ok(reader.u64("a time")?.checked_sub(1).map(Duration::from_millis))
}

fn url(reader: &mut Reader<'_>) -> Result<Box<CrawlUrl>, Damaged> {
    let text = reader.text("a URL")?;
    CrawlUrl::parse(text).map(Box::new).map_err(|_| Damaged("a URL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports() -> Vec<RobotsReport> {
        let url = |text: &str| Box::new(CrawlUrl::parse(text).unwrap());
        let mut whole = RobotsReport::of(RobotsResult::Status(200), Duration::from_millis(12));
        whole.body = b"User-agent: *\nDisallow: /a\n".as_slice().into();
        whole.cut = true;
        whole.max_age = Some(Duration::ZERO);
        whole.retry_after = Some(Duration::from_secs(7_200));
        let redirect = RobotsAnswer::Redirect(url("http://b.test/robots.txt?a=%20b"));
        let took = Duration::from_secs(1);
        let others: [RobotsAnswer; 3] =
            [RobotsResult::RedirectLimit.into(), RobotsResult::Unreachable.into(), redirect];
        others.into_iter().map(|answer| RobotsReport::of(answer, took)).chain([whole]).collect()
    }

    fn all() -> Vec<Said> {
        let asker = AwayAsker { node: NodeId::of("a"), number: (7 << 32) + 1 };
        let url = Box::new(CrawlUrl::parse("https://b.test:8443/robots.txt").unwrap());
        let answers =
            reports().into_iter().map(|report| Said::Answer { number: 9, report: Box::new(report) });
        answers.chain([Said::Ask { asker, url }, Said::NotHere { number: 9 }]).collect()
    }

    #[test]
    fn what_is_said_is_heard() {
        for said in all() {
            assert_eq!(Said::decode(&said.encode()), Ok(said));
        }
    }

    #[test]
    fn cut_bytes_are_damaged_and_more_bytes_are_a_newer_version() {
        for said in all() {
            let bytes = said.encode();
            for cut in 0..bytes.len() {
                assert!(Said::decode(&bytes[..cut]).is_err(), "{cut} of {said:?}");
            }
            assert_eq!(Said::decode(&[&bytes[..], b"more"].concat()), Ok(said));
        }
    }
}
