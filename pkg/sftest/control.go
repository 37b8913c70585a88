package sftest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// controlPath is where a program that is no Go test steers the org: POST with a
// JSON body. No real org has it.
const controlPath = "/__sftest/"

// Control is the body of a control request.
type Control struct {
	Match string `json:"match"` // of fault, requests

	Times       int    `json:"times"`
	Skip        int    `json:"skip"`
	LatencyMS   int    `json:"latency_ms"`
	Reset       bool   `json:"reset"`
	Fixture     string `json:"fixture"`
	HTML        bool   `json:"html"`
	Status      int    `json:"status"`
	Body        string `json:"body"`
	ContentType string `json:"content_type"`
	CutAfter    int    `json:"cut_after"`
	StallAfter  int    `json:"stall_after"`
	Short       int    `json:"short"`
	TrickleMS   int    `json:"trickle_ms"`

	Type    string    `json:"type"` // of hour, day
	Start   time.Time `json:"start"`
	Rows    int       `json:"rows"`
	Awkward int       `json:"awkward"`
	Overlap int       `json:"overlap"`
	Seed    uint64    `json:"seed"`
	Created time.Time `json:"created"`

	Used        int64 `json:"used"` // of usage
	Max         int64 `json:"max"`
	SkewSeconds int   `json:"skew_seconds"`

	Bus BusControl `json:"bus"` // of the verbs that begin with bus-
}

// control answers fault, clear, expire-tokens, expire-locators, usage, skew,
// hour, day, requests, and what begins with bus-.
func (o *Org) control(w *writer, r *http.Request, verb string) {
	var c Control
	if body, _ := io.ReadAll(r.Body); len(body) > 0 {
		if err := json.Unmarshal(body, &c); err != nil {
			o.fail(w, http.StatusBadRequest, "BAD_CONTROL", err.Error())
			return
		}
	}
	answer := map[string]any{"ok": true}
	created := func(f *LogFile) {
		if !c.Created.IsZero() {
			f.Created = c.Created
		}
	}
	switch verb {
	case "fault":
		if c.Fixture != "" && !hasFixture(c.Fixture) {
			o.fail(w, http.StatusBadRequest, "BAD_CONTROL", "no fixture "+c.Fixture)
			return
		}
		o.Fault(c.Match, c.fault())
	case "clear":
		o.ClearFaults()
	case "expire-tokens":
		o.ExpireTokens()
	case "expire-locators":
		o.ExpireLocators()
	case "usage":
		o.SetUsage(c.Used, c.Max)
	case "skew":
		o.SetSkew(time.Duration(c.SkewSeconds) * time.Second)
	case "hour", "day":
		if columns[c.Type] == nil || c.Start.IsZero() {
			o.fail(w, http.StatusBadRequest, "BAD_CONTROL", "type and start are needed")
			return
		}
		if verb == "day" {
			answer["id"] = o.AddDay(c.Type, c.Start, created)
			break
		}
		answer["id"] = o.AddHour(Hour{Type: c.Type, Start: c.Start, Rows: c.Rows, Awkward: c.Awkward, Overlap: c.Overlap, Seed: c.Seed}, created)
	case "requests":
		var lines []string
		for _, q := range o.Requests(c.Match) {
			lines = append(lines, q.Line())
		}
		answer["requests"] = lines
	default:
		if err := o.controlBus(verb, c, answer); err != nil {
			o.fail(w, http.StatusNotFound, "BAD_CONTROL", err.Error())
			return
		}
	}
	o.json(w, answer)
}

func (o *Org) controlBus(verb string, c Control, answer map[string]any) error {
	o.mu.Lock()
	buses := o.buses
	o.mu.Unlock()
	if !strings.HasPrefix(verb, "bus-") {
		return fmt.Errorf("no such verb: %s", verb)
	}
	if len(buses) == 0 {
		return errors.New("the org has no event bus")
	}
	return buses[0].control(verb, c.Match, c.Bus, answer)
}

func (c Control) fault() Fault {
	return Fault{Times: c.Times, Skip: c.Skip, Latency: time.Duration(c.LatencyMS) * time.Millisecond, Reset: c.Reset,
		Fixture: c.Fixture, HTML: c.HTML, Status: c.Status, Body: c.Body, ContentType: c.ContentType,
		CutAfter: c.CutAfter, StallAfter: c.StallAfter, Short: c.Short, Trickle: time.Duration(c.TrickleMS) * time.Millisecond}
}
