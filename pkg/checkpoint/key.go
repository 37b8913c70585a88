package checkpoint

import "strings"

// Sources that name their positions, as the first word of a key.
const (
	SourcePubsub  = "pubsub"
	SourceObjects = "eventlog_objects"
	SourceELF     = "eventlogfile"
	SourceApexLog = "apexlog"
	SourceFile    = "file"
)

// dailyPrefix begins the Object of an eventlogfile key of daily files.
const dailyPrefix = "Daily:"

// EventType takes the event type out of the Object of an eventlogfile key.
func EventType(object string) string { return strings.TrimPrefix(object, dailyPrefix) }

// DeadLetterPrefix begins the keys under which dl-replay follows a replay.
// They are never positions of a document.
const DeadLetterPrefix = "deadletter:"

// Key is a checkpoint key in its parts, outermost first:
// org=ORG:lane=LANE:window=SINCE/UNTIL:SOURCE:OBJECT.
type Key struct {
	Org, Lane, Window string
	Source            string // the first word after the prefixes
	Object            string // topic, object, event type (Daily:Login too); may be empty
}

// ParseKey takes a key apart. Every text is a key; what is not in the known
// form is all Source.
func ParseKey(text string) Key {
	var k Key
	k.Org, text = cutPrefix(text, "org=")
	k.Lane, text = cutPrefix(text, "lane=")
	k.Window, text = cutWindow(text)
	k.Source, k.Object, _ = strings.Cut(text, ":")
	return k
}

// String puts the key together again.
func (k Key) String() string {
	var b strings.Builder
	for _, p := range []struct{ name, value string }{{"org=", k.Org}, {"lane=", k.Lane}, {"window=", k.Window}} {
		if p.value != "" {
			b.WriteString(p.name + p.value + ":")
		}
	}
	b.WriteString(k.Source)
	if k.Object != "" {
		b.WriteString(":" + k.Object)
	}
	return b.String()
}

func cutPrefix(text, name string) (value, rest string) {
	after, ok := strings.CutPrefix(text, name)
	if !ok {
		return "", text
	}
	value, rest, ok = strings.Cut(after, ":")
	if !ok || value == "" {
		return "", text
	}
	return value, rest
}

// cutWindow takes window=SINCE/UNTIL: off. The times have colons themselves,
// so the window ends where a source begins.
func cutWindow(text string) (window, rest string) {
	after, ok := strings.CutPrefix(text, "window=")
	if !ok {
		return "", text
	}
	slash := strings.IndexByte(after, '/')
	if slash < 0 {
		return "", text
	}
	for i := slash; i < len(after); i++ {
		if after[i] == ':' && startsWithSource(after[i+1:]) {
			return after[:i], after[i+1:]
		}
	}
	return "", text
}

func startsWithSource(text string) bool {
	name, _, _ := strings.Cut(text, ":")
	switch name {
	case SourcePubsub, SourceObjects, SourceELF, SourceApexLog, SourceFile:
		return true
	}
	return false
}
