//! Unusual names of files.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

/// A quoted pattern finds names that are no Unicode, and folders with such names; what fails is named.
#[test]
fn a_pattern_finds_names_that_are_not_unicode() {
    let place = Place::new();
    for folder in [&b"in"[..], b"in/\xfe"] {
        fs::create_dir(place.path(OsStr::from_bytes(folder))).unwrap();
    }
    place.write("in/a.png", picture(4, 4, 1, |i| i as u8));
    for name in [&b"in/\xff.png"[..], b"in/\xfe/b.png", b"in/\xfe/\xff\n.png"] {
        fs::copy(place.path("in/a.png"), place.path(OsStr::from_bytes(name))).unwrap();
    }
    fs::write(place.path(OsStr::from_bytes(b"in/c\xff.png")), "no picture").unwrap();
    let ended = place.filter(&["in/*.png", "-o", "out/", "--identity"]);
    ended.with(1, &["error: in/c\u{fffd}.png: is in no format", "1 of 3 pictures failed"]);
    assert!(place.path(OsStr::from_bytes(b"out/\xff.png")).exists());
    place.filter(&["in/?/*.png", "-o", "deep/", "--identity", "-q"]).quietly();
    place.filter(&["in/**/b.png", "-o", "deepest/", "--identity", "-q"]).quietly();
    for name in [&b"deep/b.png"[..], b"deep/\xff\n.png", b"deepest/b.png"] {
        assert!(place.path(OsStr::from_bytes(name)).exists(), "{name:?}");
    }
}

/// A name can't put a line into the messages that looks like one of ours.
#[test]
fn a_name_with_a_line_break_stays_in_its_line() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    place.write("in/a.png", picture(4, 4, 1, |i| i as u8));
    let name = "in/b\n1 picture in 0.01 s\r\u{1b}[2J.png";
    fs::write(place.path(name), "no picture").unwrap();
    let shown = r"in/b\n1 picture in 0.01 s\r\u{1b}[2J.png";
    let lines = |ended: Ended, count: usize| {
        assert_eq!(ended.stderr.lines().count(), count, "{}", ended.stderr);
    };
    // Read, written, kept, missing, passed over, of a wrong type: each message names it in one line.
    let ended = place.filter(&["in", "-o", "out/", "--identity"]);
    lines(ended.with(1, &[&format!("error: {shown}: is in no format"), "1 of 2 pictures failed"]), 3);
    fs::copy(place.path("in/a.png"), place.path(name)).unwrap();
    place.filter(&[name, "-o", "out/", "--identity", "-q"]).quietly();
    let kept = shown.replace("in/", "out/");
    lines(place.filter(&[name, "-o", "out/", "--identity"]).with(1, &[&format!("{kept} exists, and is kept")]), 1);
    lines(place.filter(&["no\nfile.png", "-o", "b.png", "--identity"]).with(1, &[r"no\nfile.png: No such file"]), 1);
    lines(place.filter(&["no\n*.png", "-o", "out/", "--identity"]).with(1, &[r#"matches the input "no\n*.png""#]), 1);
    lines(place.filter(&["in/a.png", "-o", "no\nfolder/b.png", "--identity"]).with(2, &[r"no\nfolder"]), 1);
    lines(place.filter(&["in/a.png", "-o", "a\nb", "--identity"]).with(2, &[r"a\nb"]), 1);
    lines(place.filter(&["in/a.png", "-o", "b.png", "--mask", "a\nb.txt"]).with(2, &[r"a\nb.txt"]), 1);
    fs::create_dir(place.path("empty\nfolder")).unwrap();
    lines(place.filter(&["empty\nfolder", "-o", "out/", "--identity"]).with(1, &[r"empty\nfolder: no picture"]), 1);
}
