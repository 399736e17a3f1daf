//! Source text of the settings of this crate: their comments are the comments of the settings file.

/// Section `[frontier]`.
pub const FRONTIER: &str = include_str!("frontier/settings.rs");
/// Section `[retry]`.
pub const RETRY: &str = include_str!("frontier/retry.rs");
/// Section `[budget]`.
pub const BUDGET: &str = include_str!("budget.rs");
/// Section `[trap]`.
pub const TRAP: &str = include_str!("trap.rs");
/// Section `[spider]`.
pub const SPIDER: &str = include_str!("spider/settings.rs");
/// Section `[recrawl]`.
pub const RECRAWL: &str = include_str!("recrawl/mod.rs");
/// Section `[feed]`.
pub const FEED: &str = include_str!("feed/mod.rs");
/// Section `[feed.schedule]`.
pub const FEED_SCHEDULE: &str = include_str!("feed/schedule.rs");
/// Section `[feed.story]`.
pub const FEED_STORY: &str = include_str!("feed/story.rs");
