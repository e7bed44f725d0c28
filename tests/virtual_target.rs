//! The target `vtpu-<gen>` with the real plug-ins: what runs, what does not, and what is kept of either.
//!
//! Needs the plug-ins that `ci/setup` installs, and says so.

use std::path::Path;

use tpu_parity::case::{Case, Origin, ReferenceProgram};
use tpu_parity::compare::{ReferenceTensor, Tolerance};
use tpu_parity::hlo::MxuNumerics;
use tpu_parity::outcome::{Evidence, Outcome, OutcomeKind, Stage};
use tpu_parity::project::Project;
use tpu_parity::reference::ReferenceStore;
use tpu_parity::run::{Interrupt, PlannedTarget, Pool, RunOptions};
use tpu_parity::suite;
use tpu_parity::target::Target;
use tpu_parity::tensor::{Domain, ElementType, InputSpec, Tensor};

fn project() -> Project {
    Project::discover(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn pool(target: &str) -> Pool {
    let target: Target = target.parse().unwrap();
    let planned = match PlannedTarget::resolve(&project(), &target) {
        Ok(planned) => planned,
        Err(error) => panic!("{error}"),
    };
    let mut options = RunOptions::new(env!("CARGO_BIN_EXE_tpu-parity").into());
    options.timeout = std::time::Duration::from_secs(180);
    Pool::start(planned, options, &Interrupt::default())
        .unwrap()
        .unwrap()
}

fn run(pool: &Pool, case: &Case, reference: Result<Vec<ReferenceTensor>, String>) -> Outcome {
    pool.run(case, Some(&reference), &Interrupt::default())
        .unwrap()
        .unwrap()
}

fn case(program: &str, inputs: Vec<InputSpec>) -> Case {
    Case {
        id: "s/program/f32".parse().unwrap(),
        origin: Origin {
            file: file!().into(),
            line: 1,
        },
        program: program.to_owned(),
        reference_program: ReferenceProgram::Native,
        inputs,
        seed: 0,
        tolerances: vec![Tolerance::Exact],
        tolerance_source: None,
        scale_program: None,
        layers: Vec::new(),
        unloadable: None,
        distribution: None,
    }
}

fn input(shape: &[usize], values: &[f64]) -> InputSpec {
    InputSpec {
        element_type: ElementType::F32,
        shape: shape.to_vec(),
        domain: Domain::Values(values.to_vec()),
    }
}

fn reference(shape: &[usize], values: &[f64]) -> Result<Vec<ReferenceTensor>, String> {
    Ok(vec![ReferenceTensor {
        yardstick: None,
        flushed: None,
        values: Tensor::from_f64(ElementType::F64, shape.to_vec(), values).unwrap(),
        element_type: ElementType::F32,
        scale: None,
    }])
}

#[test]
fn cases_of_the_suites_pass_with_the_evidence_and_the_figures_of_both_compilers() {
    let project = project();
    let store = ReferenceStore::open(&project.references()).unwrap();
    let wanted = [
        "stablehlo/add/f32/vector",
        "stablehlo/dot_general/f32/matmul/default",
        "stablehlo/transpose/**",
        "stablehlo/iota/f32/**",
    ];
    let all = suite::load(&project.suites()).unwrap();
    let mut cases = suite::select(all, &wanted.map(str::to_owned), &[]).unwrap();
    cases.truncate(12);
    let pool = pool("vtpu-v6e");
    for case in &cases {
        let outcome = run(&pool, case, store.reference(case));
        let said = outcome.message.as_deref().unwrap_or_default();
        assert_eq!(outcome.outcome, OutcomeKind::Pass, "{}: {said}", case.id);
        assert_eq!(outcome.evidence, Evidence::Virtual);
        assert_eq!(outcome.stage, Stage::Compare);
        let metrics = &outcome.metrics;
        for time in [
            metrics.compile_ms,
            metrics.passes_ms,
            metrics.cpu_compile_ms,
            metrics.run_ms,
        ] {
            assert!(time.is_some_and(|ms| ms > 0.0), "{metrics:?}");
        }
        assert!(metrics.code_size.is_some_and(|bytes| bytes > 0));
        assert!(metrics.hbm.is_some_and(|bytes| bytes > 0));
        if case.id.subject() == "dot_general" {
            let estimate = metrics.estimate.unwrap();
            assert!(estimate.seconds.is_some() && estimate.cycles.is_some());
        }
        assert!(!metrics.instructions.is_empty());
    }
    let record = pool.record();
    assert_eq!(record.platform, "tpu");
    assert_eq!(record.devices, [("TPU v6 lite".to_owned(), 4)].into());
    // 32 GiB, less what libtpu keeps.
    assert!(
        record
            .memory_limit
            .is_some_and(|bytes| (30 << 30..32 << 30).contains(&bytes))
    );
    let executor = record.executor.as_ref().unwrap();
    assert_eq!(executor.platform, "cpu");
    assert_ne!(executor.sha256, record.sha256);
    assert_eq!(executor.numerics, MxuNumerics::Mxu);
}

/// 1 + 2⁻⁹ is no bf16: the matrix unit takes it for 1. Sixteen of them are 16, or 16 + 2⁻⁵.
#[test]
fn products_round_as_the_matrix_unit_unless_they_are_to_be_exact() {
    let matrix = "tensor<16x16xf32>";
    let program = format!(
        "func.func @main(%x: {matrix}, %y: {matrix}) -> {matrix} {{\n\
         %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : \
         ({matrix}, {matrix}) -> {matrix}\n\
         return %0 : {matrix}\n}}\n"
    );
    let operand = 1.0 + 1.0 / 512.0;
    let inputs = vec![input(&[16, 16], &[operand]), input(&[16, 16], &[1.0])];
    let case = case(&program, inputs);
    let target: Target = "vtpu-v5e".parse().unwrap();
    for (numerics, product) in [
        (MxuNumerics::Mxu, 16.0),
        (MxuNumerics::Exact, 16.0 + 1.0 / 32.0),
    ] {
        let mut planned = PlannedTarget::resolve(&project(), &target).unwrap();
        planned.executor.as_mut().unwrap().numerics = numerics;
        let options = RunOptions::new(env!("CARGO_BIN_EXE_tpu-parity").into());
        let interrupt = Interrupt::default();
        let pool = Pool::start(planned, options, &interrupt).unwrap().unwrap();
        let outcome = run(&pool, &case, reference(&[16, 16], &[product; 256]));
        assert_eq!(
            outcome.outcome,
            OutcomeKind::Pass,
            "{numerics}: {outcome:?}"
        );
    }
}

/// There is no host at the other end of an outfeed; the TPU's compiler takes it all the same.
#[test]
fn a_construct_without_a_meaning_on_cpu_is_unsupported_and_keeps_the_compile() {
    let program = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n\
        %token = stablehlo.create_token : !stablehlo.token\n\
        %0 = \"stablehlo.outfeed\"(%x, %token) {outfeed_config = \"\"} : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token\n\
        return %x : tensor<4xf32>\n}\n";
    let case = case(program, vec![input(&[4], &[1.0])]);
    let outcome = run(&pool("vtpu-v6e"), &case, reference(&[4], &[1.0; 4]));
    assert_eq!(
        (outcome.outcome, outcome.stage),
        (OutcomeKind::Unsupported, Stage::Run),
        "{outcome:?}"
    );
    assert_eq!(
        outcome.message.as_deref(),
        Some("not executable on CPU: outfeed")
    );
    let metrics = &outcome.metrics;
    let found = metrics.not_executable.as_ref().unwrap();
    assert_eq!(found.construct, "outfeed");
    assert!(found.instruction.contains("outfeed"), "{found:?}");
    assert_eq!(metrics.instructions.get("outfeed"), Some(&1));
    assert!(metrics.compile_ms.is_some() && metrics.hbm.is_some() && metrics.code_size.is_some());
    assert!(metrics.cpu_compile_ms.is_none() && metrics.run_ms.is_none());
}

/// 32 GiB of results: more than a v5e's 16.
#[test]
fn a_program_larger_than_the_generations_hbm_is_out_of_memory_at_compile() {
    let matrix = "tensor<65536x131072xf32>";
    let program = format!(
        "func.func @main(%x: tensor<f32>) -> {matrix} {{\n\
         %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> {matrix}\n\
         return %0 : {matrix}\n}}\n"
    );
    let case = case(&program, vec![input(&[], &[1.0])]);
    for target in ["vtpu-v5e", "aot-v5e"] {
        let outcome = run(&pool(target), &case, Err("not needed".to_owned()));
        assert_eq!(
            (outcome.outcome, outcome.stage),
            (OutcomeKind::Oom, Stage::Compile),
            "{outcome:?}"
        );
        let message = outcome.message.unwrap();
        assert!(message.contains("15.75G"), "{message}");
    }
}
