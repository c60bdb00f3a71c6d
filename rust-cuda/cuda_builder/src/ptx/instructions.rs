//! The instructions of an item.

use super::body::statements;
use super::lexer::{Kind, Token};

/// The instructions of a body with their modifiers, such as `mma.sync.aligned.m16n8k32…`, without guards and operands.
pub(super) fn instructions<'a>(text: &'a str, body: &[Token<'_>]) -> impl Iterator<Item = &'a str> {
    statements(body).into_iter().filter_map(opcode).map(|token| whole(text, token))
}

/// The opcode of a statement, if it has one.
fn opcode<'a, 't>(mut statement: &'t [Token<'a>]) -> Option<&'t Token<'a>> {
    loop {
        match statement {
            [at, not, _, rest @ ..] if at.is('@') && not.is('!') => statement = rest,
            [at, _, rest @ ..] if at.is('@') => statement = rest,
            // The statement begins with a label.
            [label, colon, rest @ ..] if label.kind == Kind::Word && colon.is(':') => statement = rest,
            [first, ..] => return (first.kind == Kind::Word).then_some(first),
            [] => return None,
        }
    }
}

/// The text from the opcode to the end of its modifiers.
fn whole<'a>(text: &'a str, opcode: &Token<'_>) -> &'a str {
    let rest = &text[opcode.start..];
    let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '$' | '%'));
    &rest[..rest.find(ends).unwrap_or(rest.len())]
}

#[cfg(test)]
mod tests {
    use super::super::lexer::tokens;
    use super::instructions;

    #[test]
    fn labels_guards_blocks_and_operands_are_no_instructions() {
        let text = "\
	.reg .pred %p<2>;
L: M: @!%p1 bra.uni L; // bar.sync 0;
	@p mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r1}, {%r2}, {%f1, %f2};
	{ .reg .b64 at; cvta.to.global.u64 at, %rd1; @p cp.async.cg.shared.global [%r1], [at], 16; }
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], 16, [%r1];
	.pragma \"bar.sync\";
	bar.sync 	0; ret;
";
        assert_eq!(
            instructions(text, &tokens(text).unwrap()).collect::<Vec<_>>(),
            [
                "bra.uni",
                "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
                "cvta.to.global.u64",
                "cp.async.cg.shared.global",
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
                "bar.sync",
                "ret"
            ]
        );
    }
}
