//! Starts this program's helper processes (a worker, a compile helper) from one thread that lives as long as this process.
//!
//! The kernel's parent-death signal comes when the *thread* that started a process ends, and lanes and a client's threads
//! come and go. What the process is told, and how it is watched, is its owner's.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

struct Order {
    program: PathBuf,
    subcommand: &'static str,
    answer: Sender<io::Result<Child>>,
}

/// `program subcommand PID`, with PID this process's, in a process group of its own and with all three streams piped.
pub(crate) fn spawn(program: &Path, subcommand: &'static str) -> io::Result<Child> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        // `thread::spawn` panics where there can be no more threads; without one, orders go to no one.
        let _ = thread::Builder::new().spawn(move || {
            for order in orders {
                let _ = order.answer.send(start(&order.program, order.subcommand));
            }
        });
        sender
    });
    let gone = || io::Error::other("the thread that starts helper processes is gone");
    let (answer, child) = mpsc::channel();
    let order = Order {
        program: program.to_owned(),
        subcommand,
        answer,
    };
    orders.send(order).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

fn start(program: &Path, subcommand: &str) -> io::Result<Child> {
    Command::new(program)
        .arg(subcommand)
        .arg(std::process::id().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C in a terminal goes to the whole foreground group; it is the starting process's to answer.
        .process_group(0)
        .spawn()
}
