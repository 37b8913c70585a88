package pubsub

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/pubsub/eventbus"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
	"sf2loki/pkg/tally"
)

// tokenVersion is the form of the positions that this release writes.
const tokenVersion = 1

// position is where a topic's stream begins: behind an event or a sign of
// life, or at a preset when there is no id.
type position struct {
	id     []byte // opaque: never a number, never compared for order
	preset Preset
	time   int64  // of the last event up to here that had one; 0: not known
	cause  string // why it is this one, for people
}

func (p position) String() string {
	if len(p.id) > 0 {
		return base64.StdEncoding.EncodeToString(p.id)
	}
	return string(p.preset)
}

// request fills in where a stream begins.
func (p position) request(req *eventbus.FetchRequest) {
	switch {
	case len(p.id) > 0:
		req.ReplayPreset, req.ReplayId = eventbus.ReplayPreset_CUSTOM, p.id
	case p.preset == Latest:
		req.ReplayPreset = eventbus.ReplayPreset_LATEST
	default:
		req.ReplayPreset = eventbus.ReplayPreset_EARLIEST
	}
}

type token struct {
	V   int    `json:"v"`
	Org string `json:"org,omitempty"`
	ID  string `json:"id"`
	TS  string `json:"ts,omitempty"`
}

// tokens writes positions. The time of the last event goes with them, so that
// an event without a time has the same one whenever it is read.
type tokens struct {
	prefix []byte // up to the id, escaped
	buf    []byte
}

func newTokens(org string) *tokens {
	t := &tokens{prefix: fmt.Appendf(nil, `{"v":%d,`, tokenVersion)}
	if org != "" {
		t.prefix = fmt.Appendf(t.prefix, `"org":%q,`, org)
	}
	t.prefix = record.AppendEscaped(nil, append(t.prefix, `"id":"`...))
	return t
}

// of is the token of a position, escaped as the inside of a JSON string, valid
// until the next call.
func (t *tokens) of(id []byte, last int64) []byte {
	t.buf = base64.StdEncoding.AppendEncode(append(t.buf[:0], t.prefix...), id)
	if last != 0 {
		t.buf = record.AppendTime(append(t.buf, `\",\"ts\":\"`...), last)
		t.buf = append(t.buf[:len(t.buf)-len("000000Z")], 'Z') // to the millisecond
	}
	return append(t.buf, `\"}`...)
}

// parsePosition reads a stored value: a token of this release, a bare id of
// the existing daemon, or the name of a preset. One that is feed.IsUseless can
// be done without; any other error is one that nothing may be built on.
func parsePosition(text, org string) (position, error) {
	text = strings.TrimSpace(text)
	switch text {
	case string(Earliest), string(Latest):
		return position{preset: Preset(text)}, nil
	case "-1", "-2":
		return position{}, feed.Uselessf("%s is of another API; here it is called %s", text, map[string]Preset{"-1": Latest, "-2": Earliest}[text])
	}
	if !strings.HasPrefix(text, "{") {
		return parseID(text)
	}
	var version struct{ V json.RawMessage }
	if err := json.Unmarshal([]byte(text), &version); err != nil || version.V == nil {
		return position{}, feed.Uselessf("%.80q is no position", text)
	}
	if err := feed.CheckVersion(version.V, tokenVersion); err != nil {
		return position{}, err
	}
	var t token
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return position{}, feed.Uselessf("%.80q: %.200v", text, err)
	}
	if err := feed.CheckOrg(t.Org, org); err != nil {
		return position{}, err
	}
	p, err := parseID(t.ID)
	if ns, errTime := record.ParseTime([]byte(t.TS)); errTime == nil {
		p.time = ns
	}
	return p, err
}

func parseID(text string) (position, error) {
	id, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(id) == 0 {
		return position{}, feed.Uselessf("%.80q is no replay id in base64", text)
	}
	return position{id: id}, nil
}

// start is where a topic's stream begins at the start of the run.
func (s *Source) start(topic string) (position, error) {
	value, ok := "", false
	if s.cfg.Resume != nil {
		value, ok = s.cfg.Resume(s.key(topic))
	}
	if !ok {
		return position{preset: s.cfg.Replay, cause: "no position is stored"}, nil
	}
	p, err := parsePosition(value, s.cfg.OrgID)
	if feed.IsUseless(err) {
		s.stats.Change(func(t *tally.Totals) { t.LoadErrors++ })
		if s.cfg.Lost == LostFail {
			return p, sysexits.Errorf(sysexits.Config, "topic %s: the stored position cannot be used: %w", topic, err)
		}
		s.log.Error("the stored position cannot be used", "topic", topic, "err", err, "from", s.cfg.Lost)
		return position{preset: Preset(s.cfg.Lost), cause: "the stored position cannot be used"}, nil
	}
	if err != nil {
		return p, fmt.Errorf("topic %s: %w", topic, err)
	}
	p.cause = "the stored position"
	return p, nil
}

func (s *Source) key(topic string) string { return s.cfg.key(topic) }

func (c *Config) key(topic string) string { return c.KeyPrefix + "pubsub:" + topic }

func formatTime(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
