//! Parsing and splitting of texts with everything that LLVM writes or may write.

use super::*;

const HEADER: &str = ".version 6.0\n.target sm_70 // debug\n.address_size 64\n";

fn parse(items: &str) -> Result<Ptx, PtxError> {
    Ptx::parse(&format!("{HEADER}{items}"))
}

/// Two entries, a function that both may call, tables, and braces and semicolons in strings and comments.
const WHOLE: &str = r#"
.visible .const .align 16 .b8 MASK[65536];
.extern .shared .align 16 .b8 pool[];
.global .align 8 .u64 table[2] = {generic(numbers), generic(numbers)+8};
.global .align 4 .b8 numbers[4] = {1, 0x2, 3, 4}; // } ;
.global .align 1 .b8 nobody[1];
.func  (.param .b32 func_retval0) helper // declared ahead
(
	.param .b64 helper_param_0
)
;

	// .globl	one
.visible .entry one(
	.param .u64 .ptr .align 1 one_param_0,
	.param .align 4 .b8 one_param_1[52]
)
.maxntid 128, 1, 1
.minnctapersm 2
{
	.local .align 16 .b8 	__local_depot0[64];
	.reg .pred 	%p<2>;
	.reg .b64 	%rd<3>;
	mov.u64 	%rd1, __local_depot0;
	ld.param.b64 	%rd2, [one_param_0+0];
	ld.global.v2.b32 	{%r1, _}, [%rd2];
	{ // callseq 0, 0
	.param .b64 param0;
	.param .b32 retval0;
	st.param.b64 	[param0], %rd2;
	call.uni (retval0), helper, (param0);
	ld.param.b32 	%r1, [retval0];
	} // callseq 0
	// begin inline asm
	{ .reg .pred q; setp.ne.b32 q, %r1, WARP_SZ; @!q bra $L__BB0_2; }
	// end inline asm
	$L_brx_0: .branchtargets $L__BB0_1, $L__BB0_2;
	brx.idx 	%r1, $L_brx_0;
$L__BB0_1:                              // %loop
	.pragma "nounroll; } {";
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], 16, [%r1];
	@%p1 bra 	$L__BB0_1;
$L__BB0_2:
	ret;
}
.visible .entry two()
{
	.reg .b64 %rd<2>;
	mov.u64 	%rd1, table;
	mov.u64 	%rd1, pool;
	ret;
}
.func  (.param .b32 func_retval0) helper(
	.param .b64 helper_param_0
)
{
	.reg .b64 	%rd<2>;
	mov.u64 	%rd1, MASK;
	st.param.b32 	[func_retval0], 0f00000000;
	ret;
}
"#;

#[test]
fn header_items_and_entries() {
    let ptx = parse(WHOLE).unwrap();
    assert_eq!((&*ptx.version, &*ptx.target, &*ptx.address_size), ("6.0", "sm_70", "64"));
    let names: Vec<_> = ptx.items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["MASK", "pool", "table", "numbers", "nobody", "helper", "one", "two", "helper"]);
    let entries: Vec<_> = ptx.entries().map(|entry| (entry.name.as_str(), entry.params.len())).collect();
    assert_eq!(entries, [("one", 2), ("two", 0)]);
    assert_eq!(ptx.functions().collect::<Vec<_>>(), ["helper", "helper"]);
    let uses: Vec<_> = ptx.items.iter().map(|item| item.uses.join(" ")).collect();
    assert_eq!(uses, ["", "", "numbers", "", "", "", "helper", "table pool", "MASK"]);
}

#[test]
fn a_module_has_what_its_entries_reach_and_nothing_else() {
    let ptx = parse(WHOLE).unwrap();
    let modules = ptx.split(|entry| format!("module_{entry}"));
    assert_eq!(modules.iter().map(|module| module.name.as_str()).collect::<Vec<_>>(), ["module_one", "module_two"]);
    let names = |module: &Module| -> Vec<String> {
        Ptx::parse(&module.text).unwrap().items.into_iter().map(|item| item.name).collect()
    };
    assert_eq!(names(&modules[0]), ["MASK", "helper", "one", "helper"]);
    assert_eq!(names(&modules[1]), ["pool", "table", "numbers", "two"]);
    assert!(modules[0].text.contains("\n.maxntid 128, 1, 1\n") && modules[0].text.contains("\"nounroll; } {\""));
    assert_eq!(modules[0].entries, ptx.entries().take(1).cloned().collect::<Vec<_>>());
}

#[test]
fn entries_of_one_module_stay_together_and_in_order() {
    let ptx = parse(WHOLE).unwrap();
    let modules = ptx.split(|_| "all".to_owned());
    let [module] = &modules[..] else { panic!("{modules:?}") };
    assert_eq!(module.entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    let again = Ptx::parse(&module.text).unwrap();
    let texts = |ptx: &Ptx| ptx.items.iter().map(|item| item.text.clone()).collect::<Vec<_>>();
    let mut expected = texts(&ptx);
    expected.retain(|text| !text.contains("nobody"));
    assert_eq!(texts(&again), expected, "no item is rewritten");
}

#[test]
fn a_module_is_for_what_its_instructions_need() {
    let header = |text: &str, version: &str, target: &str| {
        let whole =
            format!(".version {version}\n.target {target}\n.address_size 64\n{text}\n.entry other() {{ ret; }}");
        let modules = Ptx::parse(&whole).unwrap().split(str::to_owned);
        let [one, other] = [0, 1].map(|i| Ptx::parse(&modules[i].text).unwrap());
        assert_eq!((&*other.version, &*other.target), (version, target), "what needs nothing keeps its own");
        (one.version, one.target)
    };
    let of = |version: &str, target: &str| (version.to_owned(), target.to_owned());
    let copies = ".entry one() { cp.async.commit_group; ret; }";
    assert_eq!(header(copies, "6.0", "sm_70"), of("7.0", "sm_80"));
    assert_eq!(header(copies, "8.7", "sm_120"), of("8.7", "sm_120"));
    assert_eq!(header(copies, "10.0", "sm_75"), of("10.0", "sm_80"));
    assert_eq!(header(".entry one() { cp.async.bulk.commit_group; ret; }", "6.0", "sm_70"), of("8.0", "sm_90"));
    // The same in a function that the entry calls.
    let called = ".func f() { cp.async.wait_all; ret; }\n.entry one() { call f; ret; }";
    assert_eq!(header(called, "6.0", "sm_70"), of("7.0", "sm_80"));
}

#[test]
fn a_missing_reference_names_user_and_line() {
    let calls = ".entry one()\n{\n\tcall.uni gone, ();\n\tret;\n}\n";
    let missing = |line, name: &str| PtxError::Missing { line, user: "one".to_owned(), name: name.to_owned() };
    assert_eq!(parse(calls).unwrap_err(), missing(6, "gone"));
    assert_eq!(parse(".entry one()\n{\n\tmov.u64 %rd1, gone;\n}").unwrap_err(), missing(6, "gone"));
    assert_eq!(parse(".entry one() { bra $L__BB0_9; }").unwrap_err(), missing(4, "$L__BB0_9"));
    assert_eq!(parse(".entry one() { @p bra L; L: ret; }").unwrap_err(), missing(4, "p"));
    assert_eq!(parse(".global .u64 one = gone;").unwrap_err(), missing(4, "gone"));
    assert!(parse(".extern .func gone;\n.entry one() { call gone; }").is_ok(), "declared is enough");
}

#[test]
fn two_definitions_of_a_name_are_an_error() {
    let error = parse(".entry one() { ret; }\n.global .u32 one;").unwrap_err();
    assert_eq!(error, PtxError::Duplicate { line: 5, first: 4, name: "one".to_owned() });
    assert_eq!(error.to_string(), "line 5: one is defined in line 4 already");
}

#[test]
fn what_does_not_end_is_an_error_with_the_line_of_its_start() {
    assert_eq!(parse("\n.global .u32 a").unwrap_err(), PtxError::Unclosed { line: 5, what: "item" });
    assert_eq!(parse("\n.entry a() {\n{ ret; }").unwrap_err(), PtxError::Unclosed { line: 5, what: "bracket" });
    assert_eq!(parse(".entry a(.param .u32 x").unwrap_err(), PtxError::Unclosed { line: 4, what: "bracket" });
    assert_eq!(parse(".entry a()").unwrap_err(), PtxError::Unclosed { line: 4, what: "item" });
}

#[test]
fn what_is_not_known_is_refused() {
    for (text, found) in [
        ("}", "}"),
        (".section .debug_str { .b8 0 }", ".section"),
        (".file 1 \"a.rs\"", ".file"),
        (".alias a, b;", ".alias"),
        (".visible .reg .u32 a;", ".reg"),
        (".entry a();", ";"),
        (".entry () { }", "("),
        (".entry a() { ld [%r1); }", ")"),
        (".global .u32 a, b;", "b"),
        (".global .u32 = 4;", ";"),
        (".visible", "the end"),
    ] {
        match parse(text) {
            Err(PtxError::Unexpected { found: actual, line: 4, .. }) => assert_eq!(actual, found, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_header_must_be_whole() {
    assert_eq!(Ptx::parse("").unwrap_err(), PtxError::Header { directive: ".version" });
    let no_target = HEADER.replace(".target sm_70", "");
    assert_eq!(Ptx::parse(&no_target).unwrap_err(), PtxError::Header { directive: ".target" });
    let empty = HEADER.replace("64", "// 64");
    assert_eq!(Ptx::parse(&empty).unwrap_err(), PtxError::Header { directive: ".address_size" });
}
