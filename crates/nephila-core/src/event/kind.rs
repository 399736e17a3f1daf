//! The kinds of events. Their names are an interface: new ones may come, none changes its meaning.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($variant:ident $name:literal $meaning:literal;)+) => {
        /// The kind of an event.
        #[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Kind {
            $(#[doc = $meaning] $variant,)+
            /// A kind of a later version.
            #[default]
            #[serde(other)]
            Other,
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)+];

            /// The name that users see.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$variant => $name,)+
                    Kind::Other => "other",
                }
            }

            /// The meaning, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Kind::$variant => $meaning,)+
                    Kind::Other => "A kind of a later version.",
                }
            }

            /// The kind of this name.
            pub fn by_name(name: &str) -> Option<Kind> {
                Kind::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }
    };
}

kinds! {
    Fetched "fetched" "A page was fetched, for the first time or for the first time with success.";
    Changed "changed" "A page was fetched again and is another one.";
    Unchanged "unchanged" "A page was asked for again and is as it was.";
    Retry "retry" "A fetch failed and is tried again, at `next`.";
    Failed "failed" "A fetch failed for good, or there is nothing there.";
    Refused "refused" "A URL is not asked for, or its site refuses it; `outcome` or `reason` says why.";
    Postponed "postponed" "A URL was not asked for now, or its fetch failed here and not at its site; it is asked for at `next`.";
    Story "story" "A feed has a new story; its page is at `url`.";
    Polled "polled" "A feed was asked; `reason` says what it had.";
    FeedSilent "feed-silent" "A feed that was asked has been silent against its own rhythm.";
    Robots "robots" "A host's robots.txt was asked for; `reason` says what is in force, until `next`.";
    HostFound "host-found" "A host is new.";
    HostPaused "host-paused" "A host rests until `until`, since it is in trouble or asked for it.";
    HostStopped "host-stopped" "Nobody asks a host any more; `reason` says who said so.";
    HostResumed "host-resumed" "A host may be asked again.";
    HostDelay "host-delay" "A host has a rest of its own, `delay_ms`; 0 is the usual one.";
    Job "job" "A job is new or has changed; `state` says whether it runs.";
    JobRemoved "job-removed" "A job is gone.";
    Streamed "streamed" "A part of a stream of URLs was taken in.";
    Gap "gap" "Groups of the log are gone before this reader came: `gone` says of which partition, from which to which.";
}
