//! Recovery is a table; every row is here.

use journeyman::agent::event::{EffectClass, Probe};
use journeyman::agent::recovery::{Remedy, remedy};

#[test]
fn every_class_and_every_finding_has_its_remedy() {
    let happened = || Probe::Happened {
        output: "Patched".into(),
    };
    let unclear = || Probe::Unclear {
        why: "no trace".into(),
    };
    let finished = || Remedy::FinishWith("Patched".into());
    use EffectClass::{Idempotent, Opaque, Probeable, Pure};
    let table = [
        (Pure, None, Remedy::Rerun),
        (Pure, Some(happened()), Remedy::Rerun),
        (Pure, Some(Probe::Kept), Remedy::Rerun),
        (Pure, Some(Probe::DidNotHappen), Remedy::Rerun),
        (Pure, Some(Probe::HalfDone), Remedy::Rerun),
        (Pure, Some(Probe::Harmless), Remedy::Rerun),
        (Pure, Some(unclear()), Remedy::Rerun),
        (Idempotent, None, Remedy::Rerun),
        (Idempotent, Some(happened()), Remedy::Rerun),
        (Idempotent, Some(Probe::Kept), Remedy::Rerun),
        (Idempotent, Some(Probe::DidNotHappen), Remedy::Rerun),
        (Idempotent, Some(Probe::HalfDone), Remedy::Rerun),
        (Idempotent, Some(Probe::Harmless), Remedy::Rerun),
        (Idempotent, Some(unclear()), Remedy::Rerun),
        (Probeable, None, Remedy::Probe),
        (Probeable, Some(happened()), finished()),
        (Probeable, Some(Probe::Kept), Remedy::Await),
        (Probeable, Some(Probe::DidNotHappen), Remedy::Rerun),
        (Probeable, Some(Probe::HalfDone), Remedy::Rerun),
        (Probeable, Some(Probe::Harmless), Remedy::Rerun),
        (Probeable, Some(unclear()), Remedy::AskPerson),
        (Opaque, None, Remedy::Probe),
        (Opaque, Some(happened()), finished()),
        (Opaque, Some(Probe::Kept), Remedy::Await),
        (Opaque, Some(Probe::DidNotHappen), Remedy::Rerun),
        (Opaque, Some(Probe::HalfDone), Remedy::Rerun),
        (Opaque, Some(Probe::Harmless), Remedy::Rerun),
        (Opaque, Some(unclear()), Remedy::AskPerson),
    ];
    for (class, probe, expected) in table {
        assert_eq!(
            remedy(class, probe.as_ref()),
            expected,
            "{class:?} {probe:?}"
        );
    }
}
