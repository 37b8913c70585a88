package replay

import (
	"testing"

	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

// settler is a run that has sent all of the spool, with a command that has said
// nothing yet.
func (b *bench) settler() *settler {
	b.t.Helper()
	r := &run{Config: b.config(""), byKey: map[string]*group{}}
	r.result.FailedFor = map[string]int64{}
	if err := r.plan(); err != nil {
		b.t.Fatal(err)
	}
	if _, err := r.claimChunk(0); err != nil {
		b.t.Fatal(err)
	}
	return &settler{run: r}
}

func (r *run) release() {
	for _, g := range r.groups {
		g.claim.Release()
	}
}

// An ack is not applied before the dead letters that it counts, nor before
// those that had been written when it came; until then nothing that it covers
// is taken for delivered. Acks behind it wait, too.
func TestAckWaitsForItsLetters(t *testing.T) {
	refused := &letter{end: 10, key: "deadletter:" + file, value: "2", refusal: &record.Letter{Reason: record.TooOld}}
	copied := &letter{end: 10, key: "deadletter:" + file, value: "2", refusal: &record.Letter{Reason: record.TruncatedCopy}}
	tests := []struct {
		name   string
		first  ack
		letter *letter
		want   string
	}{
		{"counted", ack{Ack: record.Ack{Value: "2", Delivered: 1, Rejected: 1}}, refused, "1:replayed 2:failed:too_old 3:replayed"},
		{"not counted", ack{Ack: record.Ack{Value: "2", Delivered: 2}, after: 10}, copied, "1:replayed 2:failed:truncated_copy 2:replayed 3:replayed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.write(file, captured(1, 2, 3))
			s := b.settler()
			defer s.release()
			step := func(e event, want string) {
				t.Helper()
				s.take(e)
				if err := s.apply(); err != nil {
					t.Fatal(err)
				}
				b.wantStatuses(want)
			}
			tt.first.Key = "deadletter:" + file
			step(event{ack: &tt.first}, "1:pending 2:pending 3:pending")
			step(event{ack: &ack{Ack: record.Ack{Key: tt.first.Key, Value: "3", Delivered: 1}}}, "1:pending 2:pending 3:pending")
			step(event{letter: tt.letter}, tt.want)
		})
	}
}

// Once no more dead letters can come, an ack that counted some that did not
// come settles nothing, but those behind it count.
func TestLettersThatNeverCome(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1, 2, 3))
	s := b.settler()
	defer s.release()
	key := "deadletter:" + file
	s.take(event{ack: &ack{Ack: record.Ack{Key: key, Value: "2", Delivered: 1, Rejected: 1}}})
	s.take(event{ack: &ack{Ack: record.Ack{Key: key, Value: "3", Delivered: 1}}})
	s.take(event{lettersEnd: true})
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	b.wantStatuses("1:pending 2:pending 3:replayed")
	if err := s.settleTotals(); err != nil {
		t.Fatal(err)
	}
	b.wantStatuses("1:pending 2:pending 3:replayed")
}

// A dead letter under the number of a record that was not sent yet is not that
// record's.
func TestLetterOfWhatWasNotSent(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1))
	r := &run{Config: b.config(""), byKey: map[string]*group{}}
	if err := r.plan(); err != nil {
		t.Fatal(err)
	}
	defer r.release()
	s := &settler{run: r}
	s.take(event{letter: &letter{key: "deadletter:" + file, value: "1", refusal: &record.Letter{Reason: record.TooOld}, raw: captured(9)}})
	if s.err != nil || r.result.Stray != 1 {
		t.Errorf("%d stray, %v", r.result.Stray, s.err)
	}
	b.wantStatuses("1:new 9:failed:bad_request")
}

// A truncated copy that was sent because it was asked for is refused or
// delivered like any other record.
func TestCopyThatIsRefused(t *testing.T) {
	b := newBench(t)
	b.write(file, capturedFor(1, record.TruncatedCopy))
	cfg := b.config("all; refuse 1 truncated_copy; ack 1 1 0 0")
	cfg.Selection.Reasons = []string{string(record.TruncatedCopy)}
	b.run(cfg, 65)
	b.wantStatuses("1:failed:truncated_copy")
}

// What is read of a record in hand is what others see: pending, and new again
// when it is given back.
func TestRecordsInHand(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1))
	s := b.settler()
	p, err := Look(b.set(), s.Options)
	if err != nil {
		t.Fatal(err)
	}
	if p.Send != 0 {
		t.Errorf("%d of the records in hand would be sent", p.Send)
	}
	s.release()
	if p, err = Look(b.set(), s.Options); err != nil || p.Send != 1 || p.InUse != 0 {
		t.Errorf("given back: %+v, %v", p, err)
	}
}

// A preview decides as the run after it does, and says of what it would send
// what a person asks.
func TestLook(t *testing.T) {
	b := newBench(t)
	b.write(file, append(captured(1, 2), capturedFor(3, record.TruncatedCopy)...))
	b.write("b-20261130-000001.ndjson", append([]byte(`{"labels":{"event_type":"Report"},"line":"4","reason":"invalid_record"}`+"\n"), capturedFor(900000, record.TooOld)...))
	w, err := spool.Open(spool.Config{Dir: b.dir, Instance: "z"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Append([][]byte{captured(5)}); err != nil {
		t.Fatal(err)
	}
	p, err := Look(b.set(), b.config("").Options)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Counts{Send: 4, TooOld: 1, Unsent: 1}); p.Counts != want || p.InUse != 1 || p.Sending.Records != 5 || p.Damage != nil {
		t.Errorf("counts %+v, %d in use, %d beyond or sent, damage %v", p.Counts, p.InUse, p.Sending.Records, p.Damage)
	}
	if p.Reasons["bad_request"] != 3 || p.Reasons["invalid_record"] != 1 || p.Types["Login"] != 3 || p.Orgs["prod"] != 3 ||
		p.Hours["2026-11-30T11"] != 3 || p.Hours["none"] != 1 {
		t.Errorf("reasons %v, types %v, orgs %v, hours %v", p.Reasons, p.Types, p.Orgs, p.Hours)
	}
	limited := b.config("").Options
	limited.Limit = 2
	if p, err = Look(b.set(), limited); err != nil || p.Send != 2 || p.Sending.Records != 3 {
		t.Errorf("limited: %+v, %v", p, err)
	}
}

// A preview names what no replay can read.
func TestLookAtDamage(t *testing.T) {
	b := newBench(t)
	b.write(file, append([]byte("what\n"), captured(1)...))
	p, err := Look(b.set(), b.config("").Options)
	if err != nil || p.Send != 1 || p.Damage == nil || p.Damage.Line != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	b.write(file+".journal", []byte(`{"v":9}`+"\n"))
	if _, err := Look(b.set(), b.config("").Options); sysexits.Of(err) != sysexits.Config {
		t.Errorf("journal of a newer release: %v", err)
	}
}
