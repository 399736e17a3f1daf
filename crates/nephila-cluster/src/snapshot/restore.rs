//! Restores a partition's state from the object store.
//!
//! Invariants: the state's folder holds its former content or a complete snapshot; length and digest of every file are
//! verified before use. A damaged snapshot is skipped for the one before.

use std::path::Path;

use anyhow::Context;
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::{DAMAGED, Manifest, Point, Pointer, Snapshots};
use crate::objects::Error;

/// Maximum number of concurrent downloads.
pub(super) const FILES_AT_ONCE: usize = 4;

/// Replaces `tables` by the latest complete snapshot, and returns that snapshot. None if no snapshot is complete.
pub(crate) async fn restore(
    snapshots: &Snapshots,
    partition: u32,
    pointer: &Pointer,
    tables: &Path,
) -> anyhow::Result<Option<Point>> {
    let coming = tables.with_extension("coming");
    for point in [&pointer.latest].into_iter().chain(&pointer.before) {
        match bring(snapshots, partition, point, &coming).await {
            Ok(()) => {
                put_in_place(&coming, tables).with_context(|| tables.display().to_string())?;
                return Ok(Some(point.clone()));
            }
            Err(error) if error.is_lost() => {
                let sequence = point.sequence;
                tracing::warn!(
                    partition, %error,
                    "partition {partition}: the snapshot of group {sequence} is not used: {error}"
                );
                if let Error::Damaged { name, .. } = &error {
                    // The next snapshot sends the file again. If the mark cannot be written, the next restore finds the
                    // damage again.
                    _ = snapshots.objects.put(&format!("{name}{DAMAGED}"), bytes::Bytes::new()).await;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

pub(super) async fn bring(
    snapshots: &Snapshots,
    partition: u32,
    point: &Point,
    to: &Path,
) -> Result<(), Error> {
    let manifest = snapshots.manifest(partition, point).await?;
    let wrong = |source| Error::File { path: to.into(), source };
    // Leftovers of an earlier try.
    match std::fs::remove_dir_all(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(wrong(error)),
        _ => {}
    }
    std::fs::create_dir_all(to).map_err(wrong)?;
    check_names(snapshots, point, &manifest)?;
    let files: Vec<_> = manifest
        .files
        .into_iter()
        .map(|file| {
            let (objects, to) = (snapshots.objects.clone(), to.join(&file.name));
            async move { objects.get_file(&file.object, &to, &file.content).await }
        })
        .collect();
    futures_util::stream::iter(files).buffer_unordered(FILES_AT_ONCE).try_collect::<()>().await?;
    std::fs::File::open(to).and_then(|folder| folder.sync_all()).map_err(wrong)?;
    // Every file is intact; check that together they are the expected state.
    let listed = nephila_store::state::list(to).ok().flatten();
    match listed.is_some_and(|listed| listed.position == point.position()) {
        true => Ok(()),
        false => Err(damaged(snapshots, point, "its files are not a state of its position".into())),
    }
}

pub(super) fn damaged(snapshots: &Snapshots, point: &Point, why: String) -> Error {
    Error::Damaged { name: point.manifest.clone(), store: snapshots.objects.place().into(), why }
}

/// Rejects file names that lead out of the folder: we never write such names.
pub(super) fn check_names(snapshots: &Snapshots, point: &Point, manifest: &Manifest) -> Result<(), Error> {
    let is_plain =
        |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
    match manifest.files.iter().find(|file| !is_plain(&file.name)) {
        None => Ok(()),
        Some(file) => Err(damaged(snapshots, point, format!("it names a file {:?}", file.name))),
    }
}

pub(super) fn put_in_place(coming: &Path, tables: &Path) -> std::io::Result<()> {
    if tables.exists() {
        std::fs::remove_dir_all(tables)?;
    }
    std::fs::rename(coming, tables)?;
    match tables.parent() {
        Some(folder) => std::fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
