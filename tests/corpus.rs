//! Replays the committed fuzz corpus: what the fuzzer once found stays found, without a fuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "../fuzz/src/lib.rs"]
mod entries;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

fn children(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder)
        .unwrap_or_else(|fault| panic!("{}: {fault}", folder.display()))
        .map(|child| child.expect("the folder can be listed").path())
        .collect()
}

#[test]
fn every_corpus_file_passes_its_target() {
    for (name, entry) in entries::ENTRIES {
        let files = children(&corpus().join(name));
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            println!("{}", file.display());
            entry(&fs::read(&file).expect("the file can be read"));
        }
    }
}

#[test]
fn every_corpus_folder_has_a_target_and_every_target_a_binary() {
    let names: BTreeSet<PathBuf> = entries::ENTRIES.iter().map(|(name, _)| corpus().join(name)).collect();
    assert_eq!(names, children(&corpus()));
    let binaries = corpus().with_file_name("fuzz_targets");
    let expected: BTreeSet<PathBuf> =
        entries::ENTRIES.iter().map(|(name, _)| binaries.join(name).with_extension("rs")).collect();
    assert_eq!(expected, children(&binaries));
}
