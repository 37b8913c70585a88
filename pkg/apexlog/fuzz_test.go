package apexlog

import (
	"strings"
	"testing"

	"sf2loki/pkg/errtest"
	"sf2loki/pkg/salesforce"
)

// A record of the list has an Id and a length that can be one.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"attributes":{"type":"ApexLog"},"Id":"07Lxx0000000001AAA","StartTime":"2026-07-01T10:00:00.000+0000","LogLength":2692}`, `{"Id":"07Lxx0000000001","StartTime":null,"LogLength":null}`,
		`{"Id":"07Lxx0000000001","LogLength":"1e300"}`, `{"Id":"07Lxx0000000001","LogLength":"NaN"}`, `{"Id":"07Lxx0000000001","LogLength":-5}`, `{"Id":"x"}`, `{"Id":7}`, `{}`, `[]`, `{"Id":"\u0030\u0037Lxx0000000001"}`,
		`{"Id":"` + strings.Repeat("7", 5000) + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m rowMaker
		l, err := m.read(raw)
		if err != nil {
			errtest.OneLine(t, err)
			return
		}
		if _, err := salesforce.ID18(l.id); err != nil || l.length < 0 || !l.timed && l.time != 0 || l.time%1e6 != 0 {
			t.Fatalf("%s is %+v, %v", raw, l, err)
		}
	})
}
