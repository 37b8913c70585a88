package k8s

import (
	"math"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sf2loki/pkg/lease"
)

// A Lease of whatever writer never says less than its transitions, and is the
// same after it was written again.
func TestRecord(t *testing.T) {
	renewed := metav1.NewMicroTime(time.Date(2026, 7, 1, 20, 0, 0, 123456e3, time.UTC))
	const ours = " 2026-07-01T20:00:00.123456Z"
	none := int32(math.MinInt32) // stands for an absent number
	read := map[lease.Record]bool{}
	for _, holder := range []string{"", "a", "\"é\""} {
		for _, seconds := range []int32{none, -5, 0, 45} {
			for _, transitions := range []int32{none, -1, 0, 7, math.MaxInt32} {
				for _, epoch := range []string{"", "9", "-1", "x", "18446744073709551615"} {
					for _, ttl := range []string{"", "1500ms", "-1s", "soon"} {
						for _, term := range []string{"", "T 3" + ours, "T x" + ours, " 3" + ours, "T 3 2026-07-01T20:00:01.000000Z", "T"} {
							l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{epochKey: epoch, ttlKey: ttl, termKey: term}}}
							l.Spec.HolderIdentity, l.Spec.RenewTime = &holder, &renewed
							if seconds != none {
								l.Spec.LeaseDurationSeconds = &seconds
							}
							if transitions != none {
								l.Spec.LeaseTransitions = &transitions
							}
							r := record(&l)
							read[r] = true
							if transitions > 0 && r.Epoch < uint64(transitions) {
								t.Fatalf("%+v: epoch %d", l, r.Epoch)
							}
							r.TTL = max(r.TTL, time.Second) // whoever writes has these
							if r.Term == "" || r.Renewed.IsZero() {
								r.Term, r.Count, r.Renewed = "term", 1, renewed.Time
							}
							fill(&l, r)
							if again := record(&l); again != r {
								t.Fatalf("%+v is %+v and then %+v", l, r, again)
							}
						}
					}
				}
			}
		}
	}
	if len(read) < 100 {
		t.Errorf("%d kinds of leases were read", len(read))
	}
	if r := record(&coordinationv1.Lease{}); r != (lease.Record{}) {
		t.Errorf("nothing says %+v", r)
	}
}
