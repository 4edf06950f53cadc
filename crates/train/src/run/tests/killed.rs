//! Launches in processes of their own, which are killed or told to stop.

use super::*;

/// What a child process is told: by these variables, since its arguments belong to the test harness.
const CHILD_ROOT: &str = "WAYCAIRN_TEST_CHILD_ROOT";
const CHILD_TEXT: &str = "WAYCAIRN_TEST_CHILD_TEXT";
const CHILD_PAUSE: &str = "WAYCAIRN_TEST_CHILD_PAUSE";
const CHILD_STEPS: &str = "WAYCAIRN_TEST_CHILD_STEPS";
/// Milliseconds that each step takes longer, so that a kill in the middle is one whatever the machine.
const CHILD_SLOW: &str = "WAYCAIRN_TEST_CHILD_SLOW";

/// Launches that are killed, of them while there was still something to do, and of them resumed from a checkpoint.
const LAUNCHES: usize = 20;
const UNFINISHED: usize = 15;
const RESUMED: usize = 10;
const STEPS: usize = 420;

const CHILD_SETS: [(&str, &str); 5] = [
    ("steps", "420"),
    ("checkpoint_every", "7"),
    ("eval_every", "10"),
    ("data.order", "shuffled"),
    ("model.layers", "2"),
];

/// The program that the tests below start; it does nothing without the variables.
#[test]
fn child() {
    let (Ok(root), Ok(text)) = (std::env::var(CHILD_ROOT), std::env::var(CHILD_TEXT)) else {
        return;
    };
    let rig = Rig { folder: tempfile::tempdir().unwrap() };
    let mut request = rig.request("unused", &CHILD_SETS);
    request.root = root.clone().into();
    request.text = Some(text.into());
    if let Ok(steps) = std::env::var(CHILD_STEPS) {
        request.sets.push(("steps".to_owned(), steps));
    }
    let pause: Option<u64> = std::env::var(CHILD_PAUSE).ok().and_then(|step| step.parse().ok());
    let slow: u64 = std::env::var(CHILD_SLOW).ok().and_then(|time| time.parse().ok()).unwrap_or(0);
    let mut progress = |event: &Event<'_>| {
        if let Event::Started { done, .. } = event
            && *done > 0
        {
            std::fs::write(Path::new(&root).join(format!("resumed-{}", std::process::id())), "").unwrap();
        }
        if matches!(event, Event::Step { .. }) && slow > 0 {
            std::thread::sleep(std::time::Duration::from_millis(slow));
        }
        if matches!(event, Event::Step { step, .. } if Some(*step) == pause) {
            std::fs::write(Path::new(&root).join("paused"), "").unwrap();
            loop {
                std::thread::park();
            }
        }
    };
    let stop = Stop::on_signals(|| 9, || ()).unwrap();
    let report = train(&crate::experiments![Gpt], &request, &stop, &mut progress).unwrap();
    std::process::exit(if report.status == Status::Stopped { 4 } else { 0 });
}

fn spawn(rig: &Rig, root: &Path, pause: Option<u64>) -> std::process::Child {
    let mut command = command(rig, root);
    if let Some(step) = pause {
        command.env(CHILD_PAUSE, step.to_string());
    }
    command.spawn().unwrap()
}

fn launch_slowly(rig: &Rig, root: &Path) -> std::process::Child {
    command(rig, root).env(CHILD_SLOW, "4").spawn().unwrap()
}

fn command(rig: &Rig, root: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["run::tests::killed::child", "--exact", "--test-threads=1"])
        .env(CHILD_ROOT, root)
        .env(CHILD_TEXT, rig.folder.path().join("text.txt"))
        .stdout(std::process::Stdio::null());
    command
}

fn signal(child: &std::process::Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

fn wait_for(path: &Path) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "`{}` never came", path.display());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// The newest position of the only run that has a complete checkpoint.
fn newest(root: &Path) -> Option<u64> {
    ObjectReader::open(root).unwrap().runs().unwrap().first()?.checkpoints.last().copied()
}

#[test]
fn training_case_08_kill_nine_twenty_times() {
    let rig = Rig::new();
    let root = rig.root("killed");
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let (mut unfinished, mut resumed) = (0, 0);
    for launch in 0..LAUNCHES {
        let before = newest(&root);
        let mut child = launch_slowly(&rig, &root);
        // Most are killed a little after they went on; one of five wherever it stands then.
        let begin = Instant::now();
        while launch % 5 != 4 && newest(&root) == before && child.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60), "launch {launch} saves nothing");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(std::time::Duration::from_millis(random % 40));
        unfinished += usize::from(child.try_wait().unwrap().is_none());
        // It may have finished before.
        let _ = child.kill();
        child.wait().unwrap();
        resumed += usize::from(root.join(format!("resumed-{}", child.id())).exists());
    }
    assert!(unfinished >= UNFINISHED, "{unfinished} of {LAUNCHES} launches were killed on the way");
    assert!(resumed >= RESUMED, "{resumed} of {LAUNCHES} launches went on from a checkpoint");
    let recorded = ObjectReader::open(&root).unwrap().runs().unwrap();
    assert!(!recorded[0].finished && newest(&root) > Some(6), "the last kill came on the way: {recorded:?}");
    let mut request = rig.request("killed", &CHILD_SETS);
    let rest = run(&request);
    request.root = rig.root("whole");
    let whole = run(&request);
    assert!(rest.steps == whole.steps && rest.node.seq() == whole.node.seq());
    let (ours, theirs) = (computed(&root, "run"), computed(&rig.root("whole"), "run"));
    assert_eq!(ours.len(), STEPS);
    assert_eq!(ours, theirs);
    assert_eq!(final_weights(&root, &rest), final_weights(&rig.root("whole"), &whole));
    let reader = ObjectReader::open(&root).unwrap();
    assert_eq!(reader.runs().unwrap().len(), 1, "every launch went on with the same run");
}

/// Whether this process, and so its children, ignore SIGHUP; as far as the system tells.
fn hang_ups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[test]
fn a_termination_stops_in_good_order() {
    let rig = Rig::new();
    for name in ["TERM", "HUP", "INT", "USR1"] {
        if name == "HUP" && hang_ups_are_ignored() {
            // Started to ignore it, as `nohup` does, a training ignores it too.
            continue;
        }
        let root = rig.root(name);
        // So many steps that it cannot have finished before the signal.
        let mut child = command(&rig, &root).env(CHILD_STEPS, "1000000").spawn().unwrap();
        // From the first checkpoint on there is one to stop at.
        wait_for(&root.join("objects").join("blobs"));
        let begun = || std::fs::read_dir(root.join("objects").join("blobs")).unwrap().next().is_some();
        let begin = Instant::now();
        while !begun() {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60), "it saves nothing");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        signal(&child, name);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(4), "{name}");
        let reader = ObjectReader::open(&root).unwrap();
        let last = reader.runs().unwrap()[0].last.clone();
        assert!(reader.checkpoint(&last).unwrap().is_some(), "{name}: the last node has a checkpoint");
    }
}

#[test]
fn a_second_interrupt_stops_at_once_and_keeps_what_was_recorded() {
    let rig = Rig::new();
    let root = rig.root("interrupted");
    let mut child = spawn(&rig, &root, Some(5));
    wait_for(&root.join("paused"));
    signal(&child, "INT");
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none(), "the first only asks");
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let recorded = computed(&root, "run");
    assert_eq!(recorded.len(), 5);
    assert!(recorded[&4].contains_key("train/loss"));
}
