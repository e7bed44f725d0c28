//! The rules of others as computed here against the libraries themselves: `cargo bench --bench rivals -- JAX_PYTHON TORCH_PYTHON`,
//! or `benches/rivals.sh`.
//!
//! A sample of pairs of every element type, equal but for perturbations from 10⁻⁹ to 1 and for special values, goes to
//! `rivals.py`, which asks numpy as JAX's tests do, PyTorch, and numpy's `corrcoef`. Every verdict must be the same.

use std::error::Error;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tpu_parity::power::Rule;
use tpu_parity::tensor::{Domain, ElementType, InputSpec, Tensor};

/// Pairs of each element type.
const PAIRS: usize = 400;
const ELEMENTS: usize = 5;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    let [jax, torch] = args.as_slice() else {
        return Err("give the Python interpreters of a JAX and of a PyTorch environment".into());
    };
    let mut pairs = Vec::new();
    for element_type in ElementType::all() {
        pairs.extend(sample(element_type)?);
    }
    let mut sound = true;
    for (python, rules) in [
        (jax, &[Rule::JaxAllclose, Rule::Correlation][..]),
        (torch, &[Rule::TorchAssertClose]),
    ] {
        for &rule in rules {
            sound &= check(python, rule, &pairs)?;
        }
    }
    if sound {
        Ok(())
    } else {
        Err("verdicts differ".into())
    }
}

fn sample(element_type: ElementType) -> Result<Vec<(Tensor, Tensor)>> {
    let parts = if element_type.is_complex() { 2 } else { 1 };
    let draw = |domain: Domain, seed: u64, count: usize| -> Result<Vec<f64>> {
        let spec = InputSpec {
            element_type: ElementType::F64,
            shape: vec![count],
            domain,
        };
        Ok(spec.generate(seed, 0)?.to_f64())
    };
    let mut pairs = Vec::new();
    for pair in 0..PAIRS {
        let seed = pair as u64;
        let domain = if pair % 5 == 0 {
            Domain::Special
        } else {
            Domain::Any
        };
        let spec = InputSpec {
            element_type,
            shape: vec![ELEMENTS],
            domain,
        };
        let expected = spec.generate(seed, 0)?;
        let mut values = expected.to_f64();
        let knobs = draw(Domain::Unit, seed + 1_000_000, 3)?;
        let place = ((knobs[0] * values.len() as f64) as usize).min(values.len() - 1);
        let size = 10f64.powf(-9.0 * knobs[1]);
        let largest = values
            .iter()
            .filter(|v| v.is_finite())
            .fold(0.0f64, |m, v| m.max(v.abs()));
        match pair % 7 {
            0 => {}
            1 => values[place] = f64::NAN,
            2 => values[place] = -values[place],
            3 => values[place] += size * largest,
            4 => values.iter_mut().for_each(|v| *v *= 1.0 + size),
            5 => values[place] = if knobs[2] < 0.5 { f64::INFINITY } else { 0.0 },
            _ => values[place] *= 1.0 + size,
        }
        debug_assert_eq!(values.len(), ELEMENTS * parts);
        pairs.push((
            Tensor::from_f64(element_type, vec![ELEMENTS], &values)?,
            expected,
        ));
    }
    Ok(pairs)
}

/// Prints how many verdicts of the library are ours, and those that are not.
fn check(python: &str, rule: Rule, pairs: &[(Tensor, Tensor)]) -> Result<bool> {
    let asked: Vec<&(Tensor, Tensor)> = pairs
        .iter()
        .filter(|(got, expected)| rule.accepts(got, expected).is_some())
        .collect();
    let lines: Vec<Value> = asked
        .iter()
        .map(|(got, expected)| {
            json!({
                "type": got.element_type().name(),
                "got": got.data(),
                "expected": expected.data(),
                "got_values": text(got),
                "expected_values": text(expected),
            })
        })
        .collect();
    let name = match rule {
        Rule::JaxAllclose => "jax",
        Rule::TorchAssertClose => "torch",
        Rule::Correlation => "correlation",
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/rivals.py");
    let mut child = Command::new(python)
        .args([script, name])
        .env("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .ok_or("no standard input")?
        .write_all(serde_json::to_string(&lines)?.as_bytes())?;
    let output = child.wait_with_output()?;
    let verdicts: Vec<Option<bool>> = serde_json::from_slice(&output.stdout)?;
    let mut differing = 0;
    for ((got, expected), theirs) in asked.iter().zip(&verdicts) {
        let ours = rule.accepts(got, expected);
        if *theirs != ours {
            differing += 1;
            if differing <= 5 {
                let t = got.element_type();
                println!(
                    "  {t}: {:?} for {:?}: {ours:?} here, {theirs:?} there",
                    text(got),
                    text(expected)
                );
            }
        }
    }
    println!(
        "{}: {} pairs, {differing} verdicts differ",
        rule.name(),
        verdicts.len()
    );
    Ok(differing == 0 && verdicts.len() == asked.len())
}

fn text(tensor: &Tensor) -> Vec<String> {
    tensor
        .to_f64()
        .iter()
        .map(|value| format!("{value:?}"))
        .collect()
}
