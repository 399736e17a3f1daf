//! Upper bounds of time settings. A setting beyond is refused by name; otherwise the fault would show up elsewhere and
//! be blamed on a site.

use std::time::Duration;

use super::Settings;

/// Maximum duration of one phase of a fetch.
const PHASE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Maximum crawl delay and maximum lifetime of a ticket; for a longer pause there is the stop list.
const REST_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Checks all times against their upper bounds.
pub(super) fn check(settings: &Settings) -> Result<(), String> {
    let (spider, frontier) = (&settings.spider, &settings.frontier);
    for (name, time, max) in [
        ("spider.dns_timeout", spider.dns_timeout, PHASE_MAX),
        ("spider.dns_total_timeout", spider.dns_total_timeout, PHASE_MAX),
        ("spider.connect_timeout", spider.connect_timeout, PHASE_MAX),
        ("spider.connect_fallback", spider.connect_fallback, PHASE_MAX),
        ("spider.tls_timeout", spider.tls_timeout, PHASE_MAX),
        ("spider.write_timeout", spider.write_timeout, PHASE_MAX),
        ("spider.head_timeout", spider.head_timeout, PHASE_MAX),
        ("spider.body_idle_timeout", spider.body_idle_timeout, PHASE_MAX),
        ("spider.total_timeout", spider.total_timeout, PHASE_MAX),
        ("spider.speed_window", spider.speed_window, PHASE_MAX),
        ("spider.idle_timeout", spider.idle_timeout, PHASE_MAX),
        ("frontier.host_delay", frontier.host_delay, REST_MAX),
        ("frontier.host_delay_max", frontier.host_delay_max, REST_MAX),
        ("frontier.slot_delay", frontier.slot_delay, REST_MAX),
        ("frontier.ticket_timeout", frontier.ticket_timeout, REST_MAX),
    ] {
        if time > max {
            let (time, max) = (humantime::format_duration(time), humantime::format_duration(max));
            return Err(format!("{name} = {time} is longer than {max}, the most that makes sense"));
        }
    }
    Ok(())
}
