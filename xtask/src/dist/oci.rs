//! An image of the OCI (image-spec 1.1): a layout with one layer, as a tar archive for `podman load` or `skopeo copy`.
//!
//! The root is made from nothing: the program, the libraries that it needs, a user, and the folder of its crawls. There is no shell.
//! Certificates of authorities are in the program.

use anyhow::Result;
use serde_json::{Value, json};

use super::tar::{gzip, tar};
use super::tree::{FILE, PROGRAM, Tree};
use super::{About, sha256};

/// The user, who owns nothing but the folder of crawls.
const USER: u32 = 65_532;

/// The root of the image.
pub(crate) fn root(about: &About, program: &[u8], licences: &Tree) -> Result<Tree> {
    let mut root = about.needs.files()?;
    root.file("usr/bin/nephila", PROGRAM, program);
    root.file("etc/passwd", FILE, format!("nephila:x:{USER}:{USER}:Nephila:/data:/sbin/nologin\n"));
    root.file("etc/group", FILE, format!("nephila:x:{USER}:\n"));
    root.folder("data", 0o750, USER);
    // For the files of others a container gets its own.
    root.folder("tmp", 0o1777, 0);
    ["proc", "sys", "dev"].into_iter().for_each(|folder| root.folder(folder, PROGRAM, 0));
    root.extend(licences.below("usr/share/doc/nephila"));
    Ok(root)
}

/// The image.
pub(crate) fn image(about: &About, root: &Tree) -> Result<Vec<u8>> {
    let layer = tar(root, "", about.time)?;
    let config = config(about, &sha256(&layer)).to_string().into_bytes();
    let layer = gzip(&layer)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", &config),
        "layers": [described("application/vnd.oci.image.layer.v1.tar+gzip", &layer)],
        "annotations": labels(about),
    });
    let manifest = manifest.to_string().into_bytes();
    let mut entry = described("application/vnd.oci.image.manifest.v1+json", &manifest);
    entry["platform"] = json!({ "architecture": about.arch.debian, "os": "linux" });
    entry["annotations"] = json!({ "org.opencontainers.image.ref.name": about.version });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    let mut layout = Tree::default();
    layout.file("oci-layout", FILE, json!({ "imageLayoutVersion": "1.0.0" }).to_string());
    layout.file("index.json", FILE, index.to_string());
    for blob in [layer, config, manifest] {
        layout.file(format!("blobs/sha256/{}", sha256(&blob)), FILE, blob);
    }
    tar(&layout, "", about.time)
}

/// File name of the image.
pub(crate) fn name(about: &About) -> String {
    format!("nephila-{}-{}.oci.tar", about.version, about.arch.name)
}

fn config(about: &About, layer: &str) -> Value {
    json!({
        "architecture": about.arch.debian,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", "HOME=/data"],
            "Entrypoint": ["/usr/bin/nephila"],
            "Cmd": ["--help"],
            "Volumes": { "/data": {} },
            "WorkingDir": "/data",
            "StopSignal": "SIGTERM",
            "Labels": labels(about),
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created_by": "cargo xtask dist" }],
    })
}

fn labels(about: &About) -> Value {
    json!({
        "org.opencontainers.image.title": "Nephila",
        "org.opencontainers.image.description": super::SUMMARY,
        "org.opencontainers.image.version": about.version,
        "org.opencontainers.image.licenses": super::LICENSE,
    })
}

fn described(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len() })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::dist::tests::about;
    use crate::shell;

    /// The blob that a descriptor names, which has the digest and the size that the descriptor says.
    fn blob(layout: &Path, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = std::fs::read(layout.join("blobs/sha256").join(digest)).unwrap();
        assert_eq!(sha256(&bytes), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    }

    #[test]
    fn every_digest_of_an_image_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let mut root = Tree::default();
        root.file("usr/bin/nephila", PROGRAM, "program");
        let path = folder.path().join("image.tar");
        std::fs::write(&path, image(&about(), &root).unwrap()).unwrap();
        let mut unpack = Command::new("tar");
        shell::output(unpack.arg("-xf").arg(&path).arg("-C").arg(folder.path()), Duration::from_secs(30))
            .unwrap();
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let index = read(&std::fs::read(folder.path().join("index.json")).unwrap());
        let manifest = read(&blob(folder.path(), &index["manifests"][0]));
        let config = read(&blob(folder.path(), &manifest["config"]));
        assert_eq!(config["config"]["User"], "65532:65532");
        let layer = blob(folder.path(), &manifest["layers"][0]);
        let mut unpacked = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*layer), &mut unpacked).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&unpacked)));
    }
}
