package k8s

import (
	"encoding/json"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// A Lease of whatever writer never says less than its transitions, and is the
// same after it was written again.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{
		`{"spec":{"holderIdentity":"a","leaseDurationSeconds":45,"renewTime":"2026-07-01T20:00:00.123456Z","leaseTransitions":7}}`,
		`{"spec":{"leaseTransitions":7}}`, `{"spec":{"holderIdentity":"a","leaseDurationSeconds":0,"renewTime":"2026-07-01T20:00:00.000000Z"}}`, `{}`,
		`{"spec":{"holderIdentity":"a","leaseDurationSeconds":-5,"renewTime":"2026-07-01T20:00:00.000000Z","leaseTransitions":-1}}`,
		`{"metadata":{"annotations":{"sf2loki/epoch":"9","sf2loki/ttl":"1500ms","sf2loki/term":"T 3 2026-07-01T20:00:00.123456Z"}},"spec":{"holderIdentity":"a","leaseDurationSeconds":2,"renewTime":"2026-07-01T20:00:00.123456Z","leaseTransitions":7}}`,
		`{"metadata":{"annotations":{"sf2loki/epoch":"-1","sf2loki/ttl":"soon","sf2loki/term":"T x 2026-07-01T20:00:00.123456Z"}},"spec":{"holderIdentity":"a","leaseDurationSeconds":2,"renewTime":"2026-07-01T20:00:00.123456Z","leaseTransitions":7}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var l coordinationv1.Lease
		if json.Unmarshal(text, &l) != nil {
			return // client-go refuses it
		}
		r := record(&l)
		if l.Spec.LeaseTransitions != nil && int64(r.Epoch) >= 0 && int64(r.Epoch) < int64(*l.Spec.LeaseTransitions) {
			t.Fatalf("%s: epoch %d", text, r.Epoch)
		}
		r.TTL = max(r.TTL, time.Second) // whoever writes has one
		if r.Term == "" {
			r.Term, r.Count = "term", 1
		}
		fill(&l, r)
		again := record(&l)
		r.Renewed, again.Renewed = r.Renewed.UTC(), again.Renewed.UTC()
		if again != r {
			t.Fatalf("%s is %+v and then %+v", text, r, again)
		}
	})
}
