//! Measures the links of a cluster: the time of a hop, and the time until a death and a hang are noticed.
//!
//! `cargo run --release -p menagerie-cluster --example hop` starts the other node itself, on the loopback address.
//! `hop stage LISTEN` and `hop head CONNECT` measure between two machines.
#![allow(missing_docs)]

use menagerie_cluster::{
    ClusterHead, ClusterNode, ClusterOptions, ClusterTransport, HeadOptions, MemoryFigures, ServedStage,
    StageServer, StepFigures, WantedModel,
};
use menagerie_stages::{
    FrameContent, FrameHeader, FrameKind, Identity, PipelineTransport, StageFrame, TransportKind,
};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const CLUSTER: &str = "hop";
const MODEL: &str = "hop@0";
const LEASE: Duration = Duration::from_secs(3);

type Measured<T> = Result<T, Box<dyn Error>>;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn options() -> ClusterOptions {
    ClusterOptions::new(CLUSTER).with_lease(LEASE).with_insecure(true)
}

/// Sends every frame on, as a stage does.
fn stage(listen: &str) -> Measured<()> {
    let node = ClusterNode::join(&options().with_listen(vec![listen.to_owned()]))?;
    println!("{}", node.endpoints()[0]);
    let served = ServedStage {
        model: MODEL.to_owned(),
        replica: "main".to_owned(),
        identity: Identity::default(),
        plugins: Vec::new(),
        layers: 0..1,
        all_layers: 1,
    };
    let figures = Box::new(|| (MemoryFigures::default(), StepFigures::default()));
    let report = Box::new(|text: &str| eprintln!("{text}"));
    let server = StageServer::announce(&node, served, figures, report, LEASE)?;
    server.serve(&AtomicBool::new(false), |mut pipeline| {
        while let Ok(frame) = pipeline.transport.receive(soon()) {
            if let Some(frame) = frame {
                let (header, content) = frame.open(TransportKind::Serialized)?;
                let frame = StageFrame::new(&header, content, TransportKind::Serialized)?;
                pipeline.transport.send(frame, soon()).map_err(|fault| fault.to_string())?;
            }
        }
        Ok(())
    });
    Ok(())
}

fn head(connect: &str) -> Measured<ClusterTransport> {
    let node = ClusterNode::join(&options().with_connect(vec![connect.to_owned()]))?;
    let head = ClusterHead::new(node, HeadOptions::default(), Box::new(|text| eprintln!("{text}")))?;
    let identity = Identity::default();
    let wanted = WantedModel { name: MODEL.to_owned(), identity, layers: 1, credits: 3 };
    Ok(head.source(wanted).open(soon())?.transport)
}

/// Microseconds of hops with a row of so many floats: half of a round, with checksums made and checked.
fn hops(transport: &mut ClusterTransport, floats: usize, rounds: usize) -> Measured<Vec<f64>> {
    let rows = vec![0.5; floats];
    let mut times = Vec::new();
    for round in 0..rounds + rounds / 10 {
        let began = Instant::now();
        let content = FrameContent { body: Vec::new(), rows: rows.clone() };
        let header = FrameHeader { number: round as u64, ..FrameHeader::of(FrameKind::Step) };
        let frame = StageFrame::new(&header, content, TransportKind::Serialized)?;
        transport.send(frame, soon())?;
        let frame = transport.receive(soon())?.ok_or("no answer")?;
        let (_, content) = frame.open(TransportKind::Serialized)?;
        assert_eq!(content.rows.len(), floats);
        if round >= rounds / 10 {
            times.push(began.elapsed().as_secs_f64() * 5e5);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn measure(transport: &mut ClusterTransport) -> Measured<()> {
    for (floats, rounds) in [(1024, 3000), (4096, 3000), (4096 * 64, 200)] {
        let times = hops(transport, floats, rounds)?;
        let at = |part: usize| times[times.len() * part / 100];
        println!("hop of {floats} floats: p50 {:.0} us, p90 {:.0} us, p99 {:.0} us", at(50), at(90), at(99));
    }
    Ok(())
}

fn child() -> Measured<(Child, String)> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program).args(["stage", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    Ok((child, line.trim().to_owned()))
}

/// The time until the end of a stage is noticed after this signal.
fn noticed(signal: &str) -> Measured<Duration> {
    let (mut child, endpoint) = child()?;
    let mut transport = head(&endpoint)?;
    hops(&mut transport, 4096, 20)?;
    let process = child.id().to_string();
    let began = Instant::now();
    match signal {
        "-KILL" => child.kill()?,
        signal => drop(Command::new("kill").args([signal, &process]).status()?),
    }
    let ended = transport.receive(soon()).err().ok_or("the end was not noticed")?;
    let time = began.elapsed();
    println!("{signal}: {ended} after {:.1} ms", time.as_secs_f64() * 1e3);
    let _ = child.kill();
    let _ = child.wait();
    Ok(time)
}

fn main() -> Measured<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["stage", listen] => stage(listen)?,
        ["head", connect] => measure(&mut head(connect)?)?,
        _ => {
            let (mut child, endpoint) = child()?;
            measure(&mut head(&endpoint)?)?;
            let _ = child.kill();
            let _ = child.wait();
            let deaths: Vec<Duration> = (0..5).map(|_| noticed("-KILL")).collect::<Measured<_>>()?;
            let hang = noticed("-STOP")?;
            println!("deaths at most {:?}; a hang {hang:?} with a lease of {LEASE:?}", deaths.iter().max());
        }
    }
    Ok(())
}
