//! Writes files, with the same rules for all commands. An existing file stays unless the same job is resumed or the
//! user gave `--force`; only regular files are ever replaced; an input is never written, under any of its names; and
//! two programs do not write one file.

use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use tempfile::{NamedTempFile, PersistError};

/// Maximum wait for another program that changes the same file.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(1);
/// Time between two attempts to lock a file.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// A new file. It is written beside its final place, under a unique name, and moved there when it is complete; if it
/// is dropped before that, it is removed.
#[derive(Debug)]
pub struct NewFile {
    partial: NamedTempFile,
    place: PathBuf,
    force: bool,
}

impl NewFile {
    /// Creates the file; `force` lets it replace an existing one, which stays until this one is finished.
    ///
    /// # Errors
    /// When a file is in its place that must not be replaced, or the folder cannot be written.
    pub fn create(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<NewFile> {
        let (place, found) = inspect(path, inputs)?;
        if let Some(found) = &found {
            check_replaceable(path, &place, found, force)?;
        }
        let name = place
            .file_name()
            .with_context(|| format!("{} is not the name of a file", path.display()))?;
        let folder = match place.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        ensure!(
            folder.is_dir(),
            "cannot write {}: there is no folder {}",
            path.display(),
            folder.display()
        );
        let partial = builder(&format!(".{}.", name.to_string_lossy())).tempfile_in(folder);
        let partial = partial.and_then(|partial| {
            copy_mode(found.as_ref(), partial.as_file())?;
            Ok(partial)
        });
        Ok(NewFile {
            partial: partial.with_context(|| format!("cannot write {}", path.display()))?,
            place,
            force,
        })
    }

    /// Writes the contents of the file, and moves it to its place.
    ///
    /// # Errors
    /// As [`NewFile::finish`].
    pub fn finish_with(mut self, bytes: &[u8]) -> Result<()> {
        let written = self.write_all(bytes);
        written.with_context(|| format!("cannot write {}", self.place.display()))?;
        self.finish()
    }

    /// Moves the file to its place.
    ///
    /// # Errors
    /// When it cannot be written, or a file that must not be replaced is in its place by now; the written file is
    /// kept then, under the name in the message.
    pub fn finish(self) -> Result<()> {
        let name = self.place.display().to_string();
        let context = || format!("cannot write {name}");
        self.partial.as_file().sync_all().with_context(context)?;
        let (place, partial) = (self.place, self.partial);
        let found = if self.force {
            metadata_of(&place)
        } else {
            Ok(None)
        };
        let replaceable = found.and_then(|found| {
            if let Some(found) = &found {
                check_replaceable(&place, &place, found, true)?;
            }
            copy_mode(found.as_ref(), partial.as_file()).with_context(context)
        });
        let of_failed = |failed: PersistError| (failed.error.into(), failed.file);
        let put = match replaceable {
            Err(error) => Err((error, partial)),
            Ok(()) if self.force => partial.persist(&place).map_err(of_failed),
            Ok(()) => partial.persist_noclobber(&place).map_err(of_failed),
        };
        let Err((error, partial)) = put else {
            return Ok(());
        };
        let kept = partial.keep().map(|(_, path)| path);
        let kept = kept.map_or_else(
            |_| String::new(),
            |path| format!(" (it is in {})", path.display()),
        );
        Err(error).with_context(|| format!("cannot write {name}{kept}"))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.partial.flush()
    }
}

/// New files that are to be removed where the process ends without dropping them.
#[derive(Clone, Debug, Default)]
pub struct UnfinishedFiles(Arc<Mutex<Vec<PathBuf>>>);

impl UnfinishedFiles {
    /// Adds a file.
    pub fn add(&self, file: &NewFile) {
        self.0.lock().push(file.partial.path().to_owned());
    }

    /// Removes those that are not finished.
    pub fn remove(&self) {
        for path in self.0.lock().drain(..) {
            // A finished one has another name, and at the end of a process nobody reads errors.
            let _ = fs::remove_file(path);
        }
    }
}

/// Names of unfinished files. They have the permissions of the user's other new files.
fn builder(prefix: &str) -> tempfile::Builder<'_, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(".partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder
}

/// Gives a file the mode of the one that it is to replace, which may be readable by its owner only.
#[cfg(unix)]
fn copy_mode(found: Option<&Metadata>, file: &File) -> io::Result<()> {
    let Some(found) = found else {
        return Ok(());
    };
    // Some file systems have one mode for all files and refuse every change.
    if found.permissions() == file.metadata()?.permissions() {
        Ok(())
    } else {
        file.set_permissions(found.permissions())
    }
}

/// Other systems have no modes.
#[cfg(not(unix))]
fn copy_mode(_: Option<&Metadata>, _: &File) -> io::Result<()> {
    Ok(())
}

/// Writes a whole file at once, or nothing.
///
/// # Errors
/// As [`NewFile`].
pub fn write(path: &Path, bytes: &[u8], force: bool, inputs: &[PathBuf]) -> Result<()> {
    NewFile::create(path, force, inputs)?.finish_with(bytes)
}

/// Changes a small file that several programs change: `change` reads it and returns its new contents, which replace it
/// at once. The programs wait for each other, at most a second, by a lock on a file beside it.
///
/// # Errors
/// When `change` fails, the file cannot be written, or another program holds the lock.
pub fn update(path: &Path, change: impl FnOnce() -> Result<String>) -> Result<()> {
    let (place, _) = inspect(path, &[])?;
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let beside = place.with_file_name(format!(".{name}.lock"));
    let mut options = File::options();
    let locked = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(beside);
    let locked = locked.with_context(|| format!("cannot write {}", path.display()))?;
    let deadline = Instant::now() + MAX_LOCK_WAIT;
    while let Err(error) = lock(&locked, path) {
        if Instant::now() > deadline {
            return Err(error);
        }
        thread::sleep(LOCK_INTERVAL);
    }
    write(path, change()?.as_bytes(), true, &[])
}

/// Removes a file, if it is there.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Whether a file of this name is a [`NewFile`] that was not finished.
pub fn is_partial(name: &str) -> bool {
    name.ends_with(".partial")
}

/// Removes unfinished files from a folder, which a killed process leaves behind: those whose names begin with `prefix`
/// (`.NAME.` for the new file NAME). Call it only while the folder is locked against other processes that write such
/// files.
///
/// # Errors
/// When the folder cannot be read or a file cannot be removed.
pub fn remove_partial(folder: &Path, prefix: &str) -> Result<()> {
    let name = folder.display();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {name}"))? {
        let entry = entry.with_context(|| format!("cannot read {name}"))?;
        let file = entry.file_name();
        let file = file.to_string_lossy();
        if is_partial(&file) && file.starts_with(prefix) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Opens or creates a regular file to append to the output of an earlier run. The file is locked while it is open.
///
/// # Errors
/// When it cannot be opened, is not a regular file, is an input, or is being written by another program.
pub fn open_to_continue(path: &Path, inputs: &[PathBuf]) -> Result<File> {
    let (place, found) = inspect(path, inputs)?;
    ensure!(
        found.is_none_or(|found| found.is_file()),
        "{} is not a regular file",
        path.display()
    );
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(place);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    lock(&file, path)?;
    Ok(file)
}

/// The output of a stream of results.
#[derive(Debug)]
pub enum Stream {
    /// An output that cannot be read: standard output, a pipe, a device.
    Plain(Destination),
    /// A regular file, locked, that may contain the output of an earlier run.
    Continued(File),
}

/// An output that can only be written.
#[derive(Debug)]
pub enum Destination {
    /// Standard output.
    Stdout(io::Stdout),
    /// A pipe or a device.
    File(File),
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::Stdout(to) => to.write(bytes),
            Destination::File(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::Stdout(to) => to.flush(),
            Destination::File(to) => to.flush(),
        }
    }
}

/// Opens the output of a stream of results; `-` is standard output. Only regular files are read: a device may have no
/// end, and a pipe no writer.
///
/// # Errors
/// As [`open_to_continue`].
pub fn open_stream(path: &Path, inputs: &[PathBuf]) -> Result<Stream> {
    if path == Path::new("-") {
        return Ok(Stream::Plain(Destination::Stdout(io::stdout())));
    }
    let is_stream = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if !is_stream {
        return Ok(Stream::Continued(open_to_continue(path, inputs)?));
    }
    let file = File::options().write(true).open(path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Stream::Plain(Destination::File(file)))
}

/// Opens a log for appending. A pipe must have a reader, and a slow reader loses lines: a log must not block the
/// program.
///
/// # Errors
/// When it cannot be opened.
pub fn open_log(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}

/// The place that a path refers to, and the file there.
fn inspect(path: &Path, inputs: &[PathBuf]) -> Result<(PathBuf, Option<Metadata>)> {
    ensure!(
        path != Path::new("-"),
        "cannot write this to standard output: name a file"
    );
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let place = if is_link {
        dunce::canonicalize(path).with_context(|| format!("{} is a broken link", path.display()))?
    } else {
        path.to_owned()
    };
    let found = metadata_of(&place)?;
    if let Some(found) = &found {
        let input = inputs.iter().find(|input| is_same(&place, found, input));
        if let Some(input) = input {
            bail!(
                "{} is an input too ({}): name another file to write",
                path.display(),
                input.display()
            );
        }
    }
    Ok((place, found))
}

fn metadata_of(place: &Path) -> Result<Option<Metadata>> {
    match fs::metadata(place) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", place.display())),
    }
}

/// Whether two names lead to the same file.
#[cfg(unix)]
fn is_same(_: &Path, found: &Metadata, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(other).is_ok_and(|other| (other.dev(), other.ino()) == (found.dev(), found.ino()))
}

/// Whether two names lead to the same file.
#[cfg(not(unix))]
fn is_same(place: &Path, _: &Metadata, other: &Path) -> bool {
    matches!((dunce::canonicalize(place), dunce::canonicalize(other)), (Ok(a), Ok(b)) if a == b)
}

/// Whether two paths refer to the same file, or would if it existed.
pub fn is_same_place(one: &Path, other: &Path) -> bool {
    match fs::metadata(one) {
        Ok(found) => is_same(one, &found, other),
        Err(_) => absolute_path(one) == absolute_path(other),
    }
}

/// Checks that no two of the files that a command writes are the same.
///
/// # Errors
/// When two are, which names the second.
pub fn check_different<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    let mut earlier: Vec<&PathBuf> = Vec::new();
    for path in paths {
        ensure!(
            !earlier.iter().any(|other| is_same_place(other, path)),
            "{} would be written twice: use different files",
            path.display()
        );
        earlier.push(path);
    }
    Ok(())
}

/// The absolute path of a file, with links resolved if its folder exists.
fn absolute_path(path: &Path) -> PathBuf {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    match (dunce::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Checks that an existing file may be replaced.
fn check_replaceable(path: &Path, place: &Path, found: &Metadata, force: bool) -> Result<()> {
    let name = path.display();
    ensure!(found.is_file(), "{name} is not a regular file");
    ensure!(force, "{name} exists; --force overwrites it");
    // A file that may not be read cannot be locked by this user either.
    match File::open(place) {
        Ok(file) => lock(&file, path),
        Err(_) => Ok(()),
    }
}

/// Locks a file until the handle is closed. Without effect on file systems without locks.
fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("another program is writing {}", path.display()),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error<T>(result: Result<T>) -> String {
        format!("{:#}", result.err().unwrap())
    }

    #[test]
    fn existing_files_stay_unless_forced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        write(&path, b"one", false, &[]).unwrap();
        assert!(error(write(&path, b"two", false, &[])).contains("--force"));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write(&path, b"two", true, &[]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        assert!(error(write(&folder, b"x", true, &[])).contains("not a regular file"));
        // No temporary file is left.
        drop(NewFile::create(&dir.path().join("y"), false, &[]).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn unfinished_files_can_be_removed_where_nothing_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let [finished, unfinished] = ["x", "y"].map(|name| dir.path().join(name));
        let files = [&finished, &unfinished].map(|path| NewFile::create(path, false, &[]).unwrap());
        let list = UnfinishedFiles::default();
        files.iter().for_each(|file| list.add(file));
        let [file, other] = files;
        file.finish_with(b"done").unwrap();
        list.clone().remove();
        let left = fs::read_dir(dir.path()).unwrap();
        let left: Vec<PathBuf> = left.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [finished]);
        drop(other);
    }

    #[test]
    fn a_finished_file_that_cannot_take_its_place_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut file = NewFile::create(&path, true, &[]).unwrap();
        file.write_all(b"hours of work").unwrap();
        // Meanwhile another program has taken the name.
        fs::create_dir(&path).unwrap();
        let error = error(file.finish());
        let (_, kept) = error.split_once("it is in ").expect(&error);
        let kept = kept.split_once(')').unwrap().0;
        assert_eq!(fs::read(kept).unwrap(), b"hours of work");
    }

    #[test]
    fn two_new_files_of_one_name_are_both_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut first = NewFile::create(&path, false, &[]).unwrap();
        let mut second = NewFile::create(&path, false, &[]).unwrap();
        first.write_all(b"first").unwrap();
        second.write_all(b"second").unwrap();
        first.finish().unwrap();
        let message = error(second.finish());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let kept = message
            .split_once("it is in ")
            .unwrap()
            .1
            .split(')')
            .next()
            .unwrap();
        assert_eq!(fs::read(kept).unwrap(), b"second");
    }

    #[test]
    fn a_resumed_file_has_one_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let first = open_to_continue(&path, &[]).unwrap();
        for message in [
            error(open_to_continue(&path, &[])),
            error(NewFile::create(&path, true, &[])),
        ] {
            assert!(message.contains("another program is writing"), "{message}");
        }
        drop(first);
        open_to_continue(&path, &[]).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn an_input_is_not_written_under_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("in"), "input").unwrap();
        std::os::unix::fs::symlink(at("in"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("none"), at("dangling")).unwrap();
        fs::hard_link(at("in"), at("hard")).unwrap();
        let inputs = [at("link")];
        for name in ["in", "link", "hard"] {
            assert!(error(write(&at(name), b"x", true, &inputs)).contains("is an input too"));
            assert!(error(open_to_continue(&at(name), &inputs)).contains("is an input too"));
        }
        assert!(error(write(&at("dangling"), b"x", true, &[])).contains("is a broken link"));
        assert_eq!(fs::read(at("in")).unwrap(), b"input");
        // A link stays a link, and its target is replaced.
        write(&at("link"), b"new", true, &[]).unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::read(at("in")).unwrap(), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_has_many_names() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        std::os::unix::fs::symlink(at("folder"), at("link")).unwrap();
        for _ in 0..2 {
            for same in ["folder/x", "folder/./x", "link/x", "link/../folder/x"] {
                assert!(is_same_place(&at("folder/x"), &at(same)), "{same}");
            }
            for other in ["folder/y", "x", "none/x"] {
                assert!(!is_same_place(&at("folder/x"), &at(other)), "{other}");
            }
            // Again with a file there.
            fs::write(at("folder/x"), "").unwrap();
        }
        assert!(is_same_place(
            Path::new("no-such-file"),
            Path::new("./no-such-file")
        ));
        assert!(!is_same_place(&at("none/x"), &at("none/y")));
    }

    #[cfg(unix)]
    #[test]
    fn new_files_have_the_usual_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (ours, usual) = (dir.path().join("ours"), dir.path().join("usual"));
        write(&ours, b"", false, &[]).unwrap();
        File::create(&usual).unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&usual));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_replaces_another_has_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "old").unwrap();
        let change = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        change(0o600);
        let new = NewFile::create(&path, true, &[]).unwrap();
        assert_eq!(mode(new.partial.path()), 0o600);
        change(0o660);
        new.finish_with(b"new").unwrap();
        assert_eq!(
            (mode(&path), fs::read(&path).unwrap()),
            (0o660, b"new".to_vec())
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_not_replaced_and_not_read() {
        for device in ["/dev/null", "/dev/full", "/dev/zero"] {
            let path = Path::new(device);
            assert!(error(NewFile::create(path, true, &[])).contains("not a regular file"));
            assert!(error(open_to_continue(path, &[])).contains("not a regular file"));
            assert!(matches!(open_stream(path, &[]).unwrap(), Stream::Plain(_)));
        }
        assert!(matches!(
            open_stream(Path::new("-"), &[]).unwrap(),
            Stream::Plain(_)
        ));
    }
}
