use super::session::Session;
use crate::Result;
pub(super) fn run(_: &mut Session<'_>) -> Result<()> {
    Ok(())
}
