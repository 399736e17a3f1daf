//! Something that takes long to find out, and that many ask for.
//!
//! Who asks gets what is known, and whoever finds it old has it found out again, behind their back. So nobody waits, except
//! for the first time and after a long while without a question.
//!
//! Invariants: one at a time finds out, and after that rests [`REST`] times as long as it took, within [`RESTS`]; nothing
//! older than [`AGE_MAX`] is told.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The rest, as a multiple of the time that it took to find out: a watched crawl spends a hundredth of a core on it.
const REST: u32 = 100;
/// Minimum and maximum of the rest.
const RESTS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// Maximum age of what is told.
const AGE_MAX: Duration = Duration::from_secs(120);

/// See the module.
#[derive(Debug)]
pub(crate) struct Costly<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    known: Mutex<Option<Found<T>>>,
    /// Held by the one that finds out.
    finding: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct Found<T> {
    at: Instant,
    took: Duration,
    value: Arc<T>,
}

impl<T> Default for Costly<T> {
    fn default() -> Self {
        Costly(Arc::new(Shared { known: Mutex::new(None), finding: Arc::default() }))
    }
}

impl<T: Send + Sync + 'static> Costly<T> {
    /// What is known, or what `find` finds out. A failure is not kept.
    pub(crate) async fn get(
        &self,
        find: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    ) -> anyhow::Result<Arc<T>> {
        if let Some((value, age, rest)) = self.0.known() {
            if age < rest {
                return Ok(value);
            }
            if age < AGE_MAX {
                if let Ok(finding) = self.0.finding.clone().try_lock_owned() {
                    let shared = self.0.clone();
                    tokio::spawn(async move {
                        if let Err(error) = shared.find(find).await {
                            tracing::warn!(%error, "what is shown stays as it is: {error:#}");
                        }
                        drop(finding);
                    });
                }
                return Ok(value);
            }
        }
        let _finding = self.0.finding.lock().await;
        // Somebody else may have found it out meanwhile.
        match self.0.known() {
            Some((value, age, rest)) if age < rest => Ok(value),
            _ => self.0.find(find).await,
        }
    }
}

impl<T> Shared<T> {
    /// What is known, its age, and the age at which it is found out again.
    fn known(&self) -> Option<(Arc<T>, Duration, Duration)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.as_ref()?;
        Some((found.value.clone(), found.at.elapsed(), (found.took * REST).clamp(RESTS.0, RESTS.1)))
    }

    async fn find(&self, find: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<Arc<T>> {
        let began = Instant::now();
        let value = Arc::new(find.await?);
        let found = Found { at: Instant::now(), took: began.elapsed(), value: value.clone() };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::{advance, sleep};

    use super::*;

    /// What is found out: how often that was done. It takes this long.
    fn count(counts: &Arc<AtomicU32>, takes: Duration) -> impl Future<Output = anyhow::Result<u32>> + use<> {
        let counts = counts.clone();
        async move {
            sleep(takes).await;
            Ok(counts.fetch_add(1, Ordering::Relaxed))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_finds_out_and_rests_and_the_others_get_the_old_one() {
        let (costly, counts) = (Costly::<u32>::default(), Arc::<AtomicU32>::default());
        let takes = Duration::from_millis(400);
        let ask = || costly.get(count(&counts, takes));
        let (first, second) = tokio::join!(ask(), ask());
        assert_eq!((*first.unwrap(), *second.unwrap()), (0, 0), "both wait for the first");
        advance(takes * REST - Duration::from_secs(1)).await;
        assert_eq!(*ask().await.unwrap(), 0);
        advance(Duration::from_secs(1)).await;
        let began = Instant::now();
        assert_eq!((*ask().await.unwrap(), *ask().await.unwrap()), (0, 0));
        assert_eq!(began.elapsed(), Duration::ZERO, "nobody waits");
        sleep(Duration::from_secs(1)).await;
        assert_eq!((*ask().await.unwrap(), counts.load(Ordering::Relaxed)), (1, 2), "one did it");
        advance(AGE_MAX).await;
        assert_eq!(*ask().await.unwrap(), 2, "what is too old is not told");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_is_bounded_and_a_failure_is_not_kept() {
        let (costly, counts) = (Costly::<u32>::default(), Arc::<AtomicU32>::default());
        assert!(costly.get(async { Err(anyhow::anyhow!("away")) }).await.is_err());
        assert_eq!(*costly.get(count(&counts, Duration::from_millis(1))).await.unwrap(), 0);
        sleep(RESTS.0).await;
        assert_eq!(*costly.get(async { Err(anyhow::anyhow!("away")) }).await.unwrap(), 0);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(*costly.get(count(&counts, Duration::from_secs(9))).await.unwrap(), 0);
        sleep(Duration::from_secs(9)).await;
        sleep(RESTS.1 - Duration::from_secs(1)).await;
        assert_eq!(
            *costly.get(count(&counts, Duration::ZERO)).await.unwrap(),
            1,
            "nine seconds, not fifteen minutes"
        );
        sleep(Duration::from_secs(1)).await;
        assert_eq!(*costly.get(count(&counts, Duration::ZERO)).await.unwrap(), 1);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(*costly.get(count(&counts, Duration::ZERO)).await.unwrap(), 2);
    }
}
