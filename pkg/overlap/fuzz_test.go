package overlap

import (
	"slices"
	"strings"
	"testing"

	"sf2loki/pkg/errtest"
)

// Plans are objects with a source and categories, or refused in one line; what
// two of them share does not depend on their order.
func FuzzRead(f *testing.F) {
	elf := `{"source":"eventlogfile","org":"a","categories":[{"event_type":"Login","key":"eventlogfile:Login"},{"event_type":"Api*"}],"include":["Login*"],"exclude":["Logout"]}`
	bus := `{"source":"pubsub","static":true,"org":"a","patterns":["*","/event/Login*"],"exclude":["/event/X*"],"categories":[{"topic":"/event/LoginEventStream","key":"pubsub:/event/LoginEventStream"}]}`
	for _, s := range []string{
		elf, elf + bus, bus + "\n" + bus, `{"source":"eventlog_objects","org_id":"00D1","categories":[{"event_type":"LoginHistory"}]}` + elf, `{"source":"eventlogfile","categories":[{"path":"a.csv","key":"file:a.csv"}]}` + elf,
		`{"source":"apexlog","categories":[]}`, `{"source":""}`, `{"source":"x"}`, "", "[]", elf + "x", `{"source":7}`, `{"source":` + strings.Repeat("7", 5000) + `}`, strings.Repeat("7", 5000), `{"source":"eventlogfile","categories":[{"event_type":"[a"}]}` + elf,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		plans, err := Read("f", strings.NewReader(text))
		if err != nil {
			errtest.OneLine(t, err)
			return
		}
		if len(plans) == 0 || slices.ContainsFunc(plans, func(p Plan) bool { return p.Source == "" || p.Categories == nil }) {
			t.Fatalf("%q holds %+v", text, plans)
		}
		if len(plans) > 3 {
			return
		}
		found := Find(plans)
		slices.Reverse(plans)
		if back := Find(plans); (len(back) > 0) != (len(found) > 0) {
			t.Fatalf("%q: %v, in reverse %v", text, found, back)
		}
	})
}
