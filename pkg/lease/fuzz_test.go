package lease

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/errtest"
	"sf2loki/pkg/sysexits"
)

// What is no JSON is corrupt, other JSON is somebody else's, and a lease is
// the same after it was written again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"holder":"a","epoch":7,"ttl":"45s","renewed_at":"2026-07-01T20:00:00.123456+00:00","expires_at":"2026-07-01T20:00:45.123456+00:00","term":"T","count":3}`,
		`{"v":1,"holder":"","epoch":7,"ttl":"45s","renewed_at":"2026-07-01T20:00:00.000000+00:00"}`,
		`{"holder":"daemon","epoch":3,"expires_at":"2026-07-01T20:00:45.123456+02:00"}`,
		`{"holder":null,"epoch":null,"expires_at":null}`, `{"holder":"daemon","epoch":3}`,
		`{}`, `null`, `[]`, `{"holder":`, ``, `{"eventlogfile:Login":"2026-07-01"}`, "\xff",
		`{"v":2,"holder":"newer"}`, `{"v":-1,"holder":""}`, `{"holder":"a","ttl":"1 day"}`, `{"holder":"a","ttl":"-1s"}`, `{"holder":"a","epoch":-1}`,
		`{"holder":"a","epoch":18446744073709551615}`, `{"holder":"a","renewed_at":"yesterday"}`,
	} {
		f.Add([]byte(s))
	}
	for _, s := range []string{`{"holder":"a","epoch":%s}`, `{"holder":"a","ttl":"%s"}`, `{"holder":%s}`, `{"v":%s,"holder":"a"}`} {
		f.Add([]byte(strings.ReplaceAll(s, "%s", strings.Repeat("7", 5000))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if len(data) <= MaxBytes && errors.Is(err, ErrCorrupt) == json.Valid(data) {
			t.Fatalf("%q: %v", data, err)
		}
		if err != nil {
			errtest.OneLine(t, err)
			if json.Valid(data) && sysexits.Of(err) != sysexits.Config {
				t.Fatalf("%q: status %v", data, sysexits.Of(err))
			}
			return
		}
		if r.TTL == 0 {
			r.TTL = time.Second // whoever writes has one
		}
		again, err := Parse(r.Marshal())
		r.Renewed, again.Renewed = r.Renewed.UTC().Truncate(time.Microsecond), again.Renewed.UTC()
		if err != nil || again != r {
			t.Fatalf("%q is %+v and then %+v, %v", data, r, again, err)
		}
	})
}
