//! The list of parts of the program, in the format CycloneDX 1.5 (JSON).

use anyhow::Result;
use serde_json::{Value, json};

use super::About;
use super::linked::Linked;

/// The list, the program first.
pub(crate) fn list(about: &About, crates: &[Linked]) -> Result<Vec<u8>> {
    let (program, parts): (Vec<_>, Vec<_>) = crates.iter().partition(|part| part.name == "nephila");
    let program = program.first().map(|part| component(part, "application"));
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": super::utc(about.time), "component": program },
        "components": parts.iter().map(|part| component(part, "library")).collect::<Vec<_>>(),
        "dependencies": crates.iter().map(needs).collect::<Vec<_>>(),
    });
    Ok(format!("{list:#}\n").into_bytes())
}

/// File name of the list.
pub(crate) fn name(about: &About) -> String {
    format!("nephila-{}.cdx.json", about.version)
}

fn component(part: &Linked, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": part.id(),
        "name": part.name,
        "version": part.version,
        // Older manifests have a slash for `OR`.
        "licenses": [{ "expression": part.license.replace('/', " OR ") }],
    });
    if let Some(sha256) = &part.sha256 {
        component["purl"] = json!(format!("pkg:cargo/{}@{}", part.name, part.version));
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    if part.repository.starts_with("https://") {
        component["externalReferences"] = json!([{ "type": "vcs", "url": part.repository }]);
    }
    component
}

fn needs(part: &Linked) -> Value {
    json!({ "ref": part.id(), "dependsOn": part.needs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::tests::{about, linked};

    #[test]
    fn the_program_is_apart_from_its_parts() {
        let list = list(&about(), &[linked("bytes"), linked("nephila")]).unwrap();
        let list: Value = serde_json::from_slice(&list).unwrap();
        assert_eq!(list["metadata"]["component"]["name"], "nephila");
        assert_eq!(list["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
        assert_eq!(list["components"].as_array().unwrap().len(), 1);
        assert_eq!(list["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(list["dependencies"][0]["ref"], "bytes@0.1.0");
    }
}
