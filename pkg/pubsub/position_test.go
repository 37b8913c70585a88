package pubsub

import (
	"log/slog"
	"testing"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

const orgID = "00Dxx0000001gPLEAY"

func TestParsePosition(t *testing.T) { // peers 55 to 59
	at := time.Date(2026, 7, 1, 10, 0, 0, 123e6, time.UTC).UnixNano()
	for text, want := range map[string]position{
		"earliest":         {preset: Earliest},
		" latest\n":        {preset: Latest},
		"AAAAAABaluUAAA==": {id: []byte{0, 0, 0, 0, 0, 0x5a, 0x96, 0xe5, 0, 0}},
		"AAAAAABaluU=":     {id: []byte{0, 0, 0, 0, 0, 0x5a, 0x96, 0xe5}}, // shorter ids have been seen
		"AQ==":             {id: []byte{1}},
		`{"v":1,"org":"` + orgID + `","id":"AQ==","ts":"2026-07-01T10:00:00.123Z"}`: {id: []byte{1}, time: at},
		`{"v":1,"id":"AQ==","more":[1]}`:                                            {id: []byte{1}},
		`{"v":1,"id":"AQ==","ts":"soon"}`:                                           {id: []byte{1}},
	} {
		got, err := parsePosition(text, orgID)
		if err != nil || string(got.id) != string(want.id) || got.preset != want.preset || got.time != want.time {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-2", "5936869", "not base64!", "{}", "{", `{"v":0,"id":"AQ=="}`, `{"v":"x"}`, `{"v":1}`, `{"v":1,"id":""}`, `{"v":1,"id":7}`, "[1]"} {
		_, err := parsePosition(text, orgID)
		if !feed.IsUseless(err) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{`{"v":2}`, `{"v":1,"org":"00Dxx0000009999EAA","id":"AQ=="}`} {
		if _, err := parsePosition(text, orgID); sysexits.Of(err) != sysexits.Config {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTokens(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 0, 123e6, time.UTC).UnixNano()
	for _, c := range []struct {
		org  string
		time int64
		want string
	}{
		{orgID, at, `{"v":1,"org":"` + orgID + `","id":"AQI=","ts":"2026-07-01T10:00:00.123Z"}`},
		{"", 0, `{"v":1,"id":"AQI="}`},
	} {
		want := string(record.AppendEscaped(nil, []byte(c.want)))
		if got := string(newTokens(c.org).of([]byte{1, 2}, c.time)); got != want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestResume(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		ids := r.publish(0, 4)
		r.cfg.KeyPrefix = "org=prod:lane=b:"
		for _, c := range []struct {
			stored string
			want   []string
			begins string
		}{
			{b64(ids[1]), count(2, 4), `"` + b64(ids[1]) + `" cause="the stored position"`},
			{`{"v":1,"org":"` + r.org.ID + `","id":"` + b64(ids[2]) + `"}`, count(3, 4), `"` + b64(ids[2]) + `" cause="the stored position"`},
			{"earliest", count(0, 4), `earliest cause="the stored position"`},
			{"rubbish", count(0, 4), `earliest cause="the stored position cannot be used"`},
			{"-1", count(0, 4), `earliest cause="the stored position cannot be used"`},
		} {
			r.out = newOutput()
			r.cfg.Output.Records = r.out.records
			r.cfg.Log = r.out.log.Logger(slog.LevelInfo)
			r.cfg.Resume = func(key string) (string, bool) {
				if key != "org=prod:lane=b:pubsub:"+order {
					t.Errorf("asked for %s", key)
				}
				return c.stored, true
			}
			run := r.start()
			r.out.waitEvents(len(c.want))
			r.wantNumbers(c.want)
			contains(t, r.out.log.String(), `msg="topic begins" topic=`+order+" from="+c.begins) // peers 69
			if c.stored == "rubbish" && run.totals().LoadErrors != 1 {
				t.Error("not counted")
			}
			run.end()
		}
		r.cfg.Lost = LostFail
		r.cfg.Resume = func(string) (string, bool) { return "rubbish", true }
		if _, err := r.pull(); sysexits.Of(err) != sysexits.Config {
			t.Errorf("the end is %v", err)
		}
		r.cfg.Resume = func(string) (string, bool) { return `{"v":9}`, true }
		if _, err := r.pull(); sysexits.Of(err) != sysexits.Config {
			t.Errorf("the end is %v", err)
		}
	})
}
