package pubsub

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/shape"
)

func (r *rig) shape(cfg shape.Config, rules string) {
	r.t.Helper()
	var err error
	if rules != "" {
		if cfg.Transforms, err = shape.ParseTransforms([]byte(rules), SourceLabel, []byte("pepper")); err != nil {
			r.t.Fatal(err)
		}
	}
	if r.cfg.Shape, err = shape.New(cfg); err != nil {
		r.t.Fatal(err)
	}
}

// Rules come before anything leaves the program, and what they leave out moves
// the position all the same.
func TestRules(t *testing.T) { // #64
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.shape(shape.Config{Metadata: []string{"Order_Number__c", "CreatedById"}}, `
pubsub:
  - {action: drop_row, match: {Order_Number__c: "[13]"}}
  - {action: hash, fields: [CreatedById]}
  - {action: drop_field, fields: [Notes__c]}
  - {action: mask, fields: [Nothing__c]}
`)
		var ids [][]byte
		for n := range 4 {
			e := orderEvent(n)
			e.Value["Notes__c"] = "a note"
			ids = append(ids, r.bus.Publish(order, e)...)
		}
		garbage := r.bus.Publish(order, sftest.Event{Payload: []byte("\x01secret")})
		run := r.start()
		r.out.wait(3)
		r.wantNumbers([]string{"0", "2"})
		all := r.out.all()
		for _, w := range all[:2] {
			id := w.line["CreatedById"]
			if _, there := w.line["Notes__c"]; there || id == "005" || len(id.(string)) != 16 {
				t.Errorf("the line is %s", w.Line)
			}
			contains(t, string(w.Raw), `"CreatedById":"`+id.(string)+`"`)
		}
		letter := r.out.letters(record.DecodeError)[0]
		if letter.PayloadBase64 != nil || strings.Contains(string(letter.Raw), "secret") || !strings.Contains(string(letter.Raw), "withheld") {
			t.Errorf("the letter is %s", letter.Raw)
		}
		if at, _ := parsePosition(string(letter.Value), r.org.ID); b64(at.id) != b64(garbage[0]) {
			t.Errorf("the position is %s", letter.Value)
		}
		c := run.totals().Types[0]
		if c.Read != 5 || c.Written != 2 || c.Filtered != 2 || c.DeadLettered != 1 {
			t.Errorf("counted %+v", c)
		}
		synctest.Wait()
		ids = append(ids, r.bus.Publish(order, orderEvent(3))...) // left out, and nothing behind it
		r.out.wait(4)
		all = r.out.all()
		last := all[len(all)-1]
		if at, _ := parsePosition(string(last.Value), r.org.ID); !last.CheckpointOnly || b64(at.id) != b64(ids[4]) {
			t.Errorf("the position is %s", last.Raw)
		}
		run.end()
		contains(t, r.out.log.String(), "nothing so far has a column of that name")
	})
}

// The replay id decides what belongs to the sample.
func TestSample(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		rates, err := shape.ParseRates([]string{order + "=0.5"})
		if err != nil {
			t.Fatal(err)
		}
		r.shape(shape.Config{Rates: rates}, "")
		want := map[string]bool{}
		for _, id := range r.publish(0, 200) {
			sum := sha256.Sum256([]byte(hex.EncodeToString(id)))
			if binary.BigEndian.Uint64(sum[:8])%10000 < 5000 {
				want[order+":"+b64(id)] = true
			}
		}
		run := r.start()
		r.out.waitEvents(len(want))
		time.Sleep(time.Second)
		synctest.Wait()
		for _, w := range r.out.all() {
			if w.Line != nil && !want[string(w.Origin)] {
				t.Errorf("%s is not in the sample", w.Origin)
			}
		}
		c := run.totals().Types[0]
		if c.Written != int64(len(want)) || c.SampledOut != 200-c.Written || len(want) < 60 || len(want) > 140 {
			t.Errorf("counted %+v, want %d", c, len(want))
		}
		run.end()
	})
}

func TestLabelColumn(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		columns, err := shape.ParseLabelColumns([]string{"Order_Shipped__e=Order_Number__c"})
		if err != nil {
			t.Fatal(err)
		}
		r.shape(shape.Config{LabelColumns: columns, LabelValues: 2}, "")
		r.publish(0, 3)
		run := r.start()
		r.out.wait(3)
		labelled := 0
		for _, w := range r.out.all() {
			for _, l := range w.Labels {
				if string(l.Name) == "Order_Number__c" {
					labelled++
				}
			}
		}
		if labelled != 2 {
			t.Errorf("%d records have the label", labelled)
		}
		run.end()
	})
}
