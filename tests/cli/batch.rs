//! Many pictures in one run: folders, patterns, messages, and the files that an interrupted run leaves.

use super::*;

#[test]
fn several_inputs() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    for (name, size) in [("in/a.b.png", 4), ("in/c.png", 4), ("in/d.bmp", 6)] {
        place.write(name, picture(size, size + 1, 3, |i| i as u8));
    }
    let inputs = ["in/a.b.png", "in/c.png", "in/d.bmp", "in/a.b-1.png", "in/c-1.png"];
    place.filter(&["in/a.b.png", "in/c.png", "-o", "in/{stem}-1.{ext}", "--identity", "-q"]).quietly();
    assert_eq!(place.read_u8("in/a.b-1.png"), place.read_u8("in/a.b.png"));
    place.filter(&["in/*.png", "in/d.bmp", "-o", "new/folder/", "--identity", "-q"]).quietly();
    place.filter(&["in/[cd].*", "-o", "new/{stem}.npy", "--identity", "-q"]).quietly();
    let mut expected: Vec<String> = inputs.iter().map(|&name| name.to_owned()).collect();
    expected.extend(inputs.iter().map(|name| name.replace("in/", "new/folder/")));
    expected.extend(["new/c.npy".to_owned(), "new/d.npy".to_owned()]);
    expected.sort();
    assert_eq!(place.names(), expected);
    for name in inputs {
        assert_eq!(place.read_u8(&name.replace("in/", "new/folder/")), place.read_u8(name), "{name}");
    }
    // An existing folder needs no slash.
    place.filter(&["in/c.png", "-o", "new", "--identity", "-q"]).quietly();
    assert_eq!(place.read_u8("new/c.png"), place.read_u8("in/c.png"));
    // A file whose name has a glob's characters is that file.
    fs::copy(place.path("in/c.png"), place.path("[c].png")).unwrap();
    place.filter(&["[c].png", "-o", "found.png", "--identity", "-q"]).quietly();
}

/// A folder stands for the pictures directly in it. Hidden files, unfinished files and other files are passed over.
#[test]
fn a_folder_is_its_pictures() {
    let place = Place::new();
    for folder in ["in/deeper", "in/folder.png", "empty"] {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    for (number, name) in ["in/b.png", "in/A.BMP", "in/c.npy", "in/deeper/d.png"].into_iter().enumerate() {
        place.write(name, picture(4 + number, 3, 3, |i| i as u8));
    }
    for name in ["in/notes.txt", "in/Makefile", "in/.hidden.png", "in/.host-unfinished-Ab3dEf", "empty/x.txt"] {
        fs::write(place.path(name), "no picture").unwrap();
    }
    let before = place.names();
    place.filter(&["in", "-o", "out/", "--identity"]).with(0, &["3 pictures in "]);
    place.filter(&["in/", "-o", "flat/{stem}.pam", "--identity"]).with(0, &["3 pictures in "]);
    let made = ["flat/A.pam", "flat/b.pam", "flat/c.pam", "out/A.BMP", "out/b.png", "out/c.npy"];
    let mut expected: Vec<String> = before.into_iter().chain(made.map(str::to_owned)).collect();
    expected.sort();
    assert_eq!(place.names(), expected);
    assert_eq!(place.read_u8("flat/c.pam"), place.read_u8("in/c.npy"));

    // A folder without pictures is an input that fails, and the rest goes on.
    let ended = place.filter(&["empty", "in/b.png", "-o", "again/", "--identity"]);
    ended
        .with(1, &["empty: no picture is directly in this folder (.png, ", "1 input gave no picture", "1 picture in "]);
    assert_eq!(place.read_u8("again/b.png"), place.read_u8("in/b.png"));
    let ended = place.filter(&["empty", "-o", "nothing/", "--identity"]);
    ended.with(1, &["empty: no picture"]);
    assert!(!place.path("nothing").exists());
}

/// The other entries of a folder are counted. Of the links to no file, the first are named.
#[cfg(unix)]
#[test]
fn what_a_folder_has_besides_is_counted() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    place.write("in/a.png", picture(4, 3, 3, |i| i as u8));
    std::os::unix::fs::symlink("nowhere", place.path("in/b.png")).unwrap();
    fs::write(place.path("in/c.gif"), "").unwrap();
    fs::write(place.path("in/.hidden"), "").unwrap();
    let ended = place.filter(&["in", "-o", "out/", "--identity"]);
    let others = "in: 1 entry passed over: no picture by its extension, or no file\n";
    ended.with(0, &["in: 1 link passed over, which leads to no file: in/b.png\n", others]);
    place.filter(&["in", "-o", "again/", "--identity", "-q"]).quietly();
    // All results are there.
    let ended = place.filter(&["in", "-o", "out/", "--identity", "--skip-existing"]);
    ended.with(0, &["1 result existed and is kept\n"]);
    for name in ["e", "d", "f", "g"] {
        std::os::unix::fs::symlink("nowhere", place.path(format!("in/{name}.png"))).unwrap();
    }
    let links = "in: 5 links passed over, which lead to no file: in/b.png, in/d.png, in/e.png and 2 more\n";
    place.filter(&["in", "-o", "more/", "--identity"]).with(0, &[links, others]);
    // A pattern may make a folder for each.
    place.filter(&["in", "-o", "{ext}/{stem}/c.png", "--identity", "-q"]).quietly();
    assert_eq!(place.read_u8("png/a/c.png"), place.read_u8("in/a.png"));
}

/// If all results exist, the device is not opened and need not exist.
#[test]
fn existing_results_need_no_device() {
    let place = Place::new();
    place.write("a.png", picture(9, 7, 1, |i| i as u8));
    place.write("b.png", picture(9, 7, 1, |i| i as u8));
    let args = ["filter", "--device", "cuda:99", "--identity", "--skip-existing", "-o"];
    let run = |more: &[&str]| place.host(&[&args[..], more].concat());
    run(&["b.png", "a.png"]).with(0, &["1 result existed and is kept\n"]);
    run(&["b.png", "a.png", "-q"]).quietly();
    run(&["c.png", "a.png"]).with(3, &["cuda:99"]);
}

/// A file that a pattern finds and that is no picture is an error with its name. Hidden files are not found.
#[test]
fn a_pattern_reports_what_is_no_picture() {
    let place = Place::new();
    fs::create_dir_all(place.path("in/folder")).unwrap();
    place.write("in/a.png", picture(4, 3, 3, |i| i as u8));
    place.write("in/b.png", picture(4, 3, 1, |i| i as u8));
    for name in ["in/notes.txt", "in/.host-unfinished-Ab3dEf"] {
        fs::write(place.path(name), "no picture").unwrap();
    }
    let ended = place.filter(&["in/*", "-o", "out/", "--identity"]);
    let ended = ended.with(1, &["in/notes.txt: its extension names no format", "1 of 3 pictures failed"]);
    assert!(!ended.stderr.contains("unfinished"), "{}", ended.stderr);
    // With a format of the pattern's own, the content decides.
    let ended = place.filter(&["in/*", "-o", "out/{stem}.npy", "--identity", "-q"]);
    let ended = ended.with(1, &["in/notes.txt: is in no format that can be read", "1 of 3 pictures failed"]);
    assert!(!ended.stderr.contains("pictures in"), "{}", ended.stderr);
    let made: Vec<_> = place.names().into_iter().filter(|name| name.starts_with("out/")).collect();
    assert_eq!(made, ["out/a.npy", "out/a.png", "out/b.npy", "out/b.png"]);
}

/// Pictures of several sizes, types and channels in turn, each as it comes out alone, by name.
#[test]
fn a_batch_gives_what_single_runs_give() {
    let place = Place::new();
    let mut names = Vec::new();
    for number in 0..24 {
        let (width, height) = [(40, 30), (30, 40), (17, 5), (64, 1), (1, 1), (9, 33)][number % 6];
        let name = format!("in/{number:02}.npy");
        fs::create_dir_all(place.path("in")).unwrap();
        match number % 3 {
            0 => place.write(&name, picture(width, height, 1 + number % 4, |i| (i + number) as u8)),
            1 => place.write(&name, picture(width, height, 1 + number % 4, |i| (i * 257 + number) as u16)),
            _ => place.write(&name, picture(width, height, 1 + number % 4, |i| (i + number) as f32 / 3.0)),
        }
        names.push(name);
    }
    let more = ["--gaussian", "1.2", "--border", "wrap", "--alpha", "keep", "-q"];
    place.filter(&[&["in", "-o", "out/"], &more[..]].concat()).quietly();
    for name in names {
        place.filter(&[&[name.as_str(), "-o", "alone.npy", "--overwrite"], &more[..]].concat()).quietly();
        assert_eq!(place.read("alone.npy"), place.read(&name.replace("in/", "out/")), "{name}");
    }
}

/// Each input that fails is named, with the reason. All others are filtered.
#[test]
fn every_failure_is_reported() {
    let place = Place::new();
    fs::create_dir_all(place.path("in")).unwrap();
    fs::create_dir_all(place.path("out")).unwrap();
    for number in 0..10 {
        place.write(&format!("in/{number}.png"), picture(20, 10, 1, |i| (i + number) as u8));
    }
    fs::write(place.path("in/3.png"), "text").unwrap();
    let whole = fs::read(place.path("in/5.png")).unwrap();
    fs::write(place.path("in/5.png"), &whole[..whole.len() / 2]).unwrap();
    fs::write(place.path("out/7.png"), "here before").unwrap();
    let ended = place.filter(&["in", "gone.png", "-o", "out", "--box", "3"]);
    let ended = ended.with(
        1,
        &[
            "error: in/3.png: is in no format",
            "error: in/5.png: ",
            "error: out/7.png exists, and is kept (--overwrite replaces it)",
            "error: gone.png: No such file",
            "4 of 11 pictures failed",
            "7 pictures in ",
        ],
    );
    assert_eq!(ended.stderr.lines().count(), 6, "{}", ended.stderr);
    let made: Vec<_> = place.names().into_iter().filter(|name| name.starts_with("out/")).collect();
    assert_eq!(made, [0, 1, 2, 4, 6, 7, 8, 9].map(|number| format!("out/{number}.png")));
    assert_eq!(fs::read(place.path("out/7.png")).unwrap(), b"here before");
}

/// A run that is ended in the middle.
#[cfg(unix)]
mod ended_in_the_middle {
    use std::process::Child;
    use std::time::{Duration, Instant};

    use super::*;

    const PICTURES: usize = 150;

    /// Pictures that take some time together, and no two of which are alike.
    fn prepared() -> Place {
        let place = Place::new();
        fs::create_dir(place.path("in")).unwrap();
        for number in 0..PICTURES {
            place.write(&format!("in/{number:03}.png"), picture(220, 170, 3, |i| (i + 3 * number) as u8));
        }
        place
    }

    const FILTER: [&str; 6] = ["--device", "cpu", "--kernel", "3x1: 1,-1,1", "--border", "wrap"];

    /// Starts a run and waits until it has finished so many more pictures.
    fn started(place: &Place, more: usize) -> Child {
        let enough = finished(place).len() + more;
        let args = [&["filter", "in", "-o", "out/"], &FILTER[..]].concat();
        let mut command = place.interruptible(&args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.unwrap();
        let start = Instant::now();
        while finished(place).len() < enough {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            assert!(start.elapsed() < Duration::from_secs(60), "nothing is written");
            std::thread::sleep(Duration::from_millis(1));
        }
        child
    }

    /// The files under their final names.
    fn finished(place: &Place) -> Vec<String> {
        let names = place.names().into_iter().filter_map(|name| name.strip_prefix("out/").map(str::to_owned));
        names.filter(|name| !name.starts_with(".host-unfinished-")).collect()
    }

    /// The right answers, in their own folder.
    fn expected(place: &Place) {
        place.host(&[&["filter", "in", "-o", "expected/", "-q"], &FILTER[..]].concat()).quietly();
    }

    /// Checks that each finished file is whole and right.
    fn check(place: &Place) {
        for name in finished(place) {
            let [found, expected] = ["out", "expected"].map(|folder| place.read_u8(&format!("{folder}/{name}")));
            assert_eq!(found, expected, "{name}");
        }
    }

    /// Killed again and again, each time after another number of pictures; the next run does what is left.
    #[test]
    fn killed() {
        use std::os::unix::process::ExitStatusExt;
        let place = prepared();
        expected(&place);
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut kills = 0;
        while finished(&place).len() < PICTURES / 2 {
            let mut child = started(&place, random.usize(1..6));
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(9));
            kills += 1;
            check(&place);
        }
        let before = finished(&place).len();
        println!("killed {kills} times, {before} of {PICTURES} pictures are there");
        // Unfinished files do not disturb the next run, which computes the rest.
        let rest = place.host(&[&["filter", "in", "-o", "out/", "--skip-existing"], &FILTER[..]].concat());
        let kept = format!("{before} results existed and are kept");
        rest.with(0, &[&kept, &format!("{} pictures in ", PICTURES - before)]);
        assert_eq!(finished(&place).len(), PICTURES);
        check(&place);
        // They are not taken for pictures.
        place.filter(&["out", "-o", "next/", "--identity", "-q"]).quietly();
        assert_eq!(place.names().iter().filter(|name| name.starts_with("next/")).count(), PICTURES);
    }

    /// Also where the standard error is no terminal.
    #[test]
    fn what_was_done_is_said() {
        let place = prepared();
        let args = [&["filter", "in", "-o", "out/"], &FILTER[..]].concat();
        let mut command = place.interruptible(&args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child = child.unwrap();
        while finished(&place).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let ended: Ended = child.wait_with_output().unwrap().into();
        ended.with(130, &["interrupted after ", " of 150 pictures"]);
    }

    #[test]
    fn interrupted() {
        let place = prepared();
        expected(&place);
        for (signal, more, status) in [("-INT", 1, 130), ("-TERM", 4, 143), ("-HUP", 3, 129), ("-INT", 7, 130)] {
            let mut child = started(&place, more);
            let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
            assert!(sent.success());
            assert_eq!(child.wait().unwrap().code(), Some(status), "{signal}");
            let left: Vec<_> = place.names().into_iter().filter(|name| name.contains(".host-unfinished-")).collect();
            assert!(left.is_empty(), "{left:?}");
            check(&place);
        }
    }
}

/// A bitmap is among a folder's pictures; its result needs another format.
#[test]
fn a_folder_has_bitmaps() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    fs::write(place.path("in/a.pbm"), "P1 2 1\n1 0\n").unwrap();
    place.filter(&["in", "-o", "out/{stem}.png", "--identity"]).with(0, &[]);
    assert_eq!(place.read_u8("out/a.png").values(), [0, 255]);
    place
        .filter(&["in", "-o", "out/", "--identity"])
        .with(1, &["in/a.pbm: its extension names no format for the result"]);
}

/// A result that appears while the batch runs is kept as one that was there before.
#[cfg(unix)]
#[test]
fn results_of_another_batch_are_kept() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    place.write("in/a.png", picture(4, 4, 1, |i| i as u8));
    let pipe = place.path("in/b.png");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = place.command(&[
        "filter",
        "--device",
        "cpu",
        "in/a.png",
        "in/b.png",
        "-o",
        "out/",
        "--identity",
        "--skip-existing",
    ]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It has begun when it opens the pipe; the result is there before it can read.
    let mut writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    fs::create_dir_all(place.path("out")).unwrap();
    fs::write(place.path("out/b.png"), "theirs").unwrap();
    writer.write_all(&fs::read(place.path("in/a.png")).unwrap()).unwrap();
    drop(writer);
    let ended = Ended::from(child.wait_with_output().unwrap());
    let ended = ended.with(0, &["1 picture in ", "1 result existed and is kept"]);
    assert!(!ended.stderr.contains("failed"), "{}", ended.stderr);
    assert_eq!(fs::read(place.path("out/b.png")).unwrap(), b"theirs");
}

/// A name that is no Unicode fills a pattern as any other.
#[cfg(target_os = "linux")]
#[test]
fn names_need_not_be_unicode() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    place.write("a.png", picture(4, 4, 1, |i| i as u8));
    let name = std::ffi::OsStr::from_bytes(b"in/\xff.png");
    fs::rename(place.path("a.png"), place.path(name)).unwrap();
    place.filter(&["in", "-o", "out/{stem}-b.png", "--identity"]).with(0, &[]);
    assert!(place.path(std::ffi::OsStr::from_bytes(b"out/\xff-b.png")).exists());
}
