package loki

import (
	"fmt"
	"strings"
	"testing"
)

// suspectText shows the suspects of a verdict, one letter for each entry: - none,
// the first letter of the fault's kind, upper case when it is sure.
func suspectText(v *Verdict, entries []EntryFacts) string {
	var b strings.Builder
	for _, s := range v.Suspects(nil, entries) {
		switch {
		case s.Fault < 0:
			b.WriteByte('-')
		case s.Sure:
			b.WriteString(strings.ToUpper(faultLetters[v.Faults[s.Fault].Kind]))
		default:
			b.WriteString(faultLetters[v.Faults[s.Fault].Kind])
		}
	}
	return b.String()
}

var faultLetters = map[Kind]string{
	KindTooOld: "o", KindTooNew: "n", KindTooFarBehind: "b", KindLineTooLong: "l", KindMetadataDisallowed: "d",
	KindMetadataTooLarge: "s", KindMetadataTooMany: "m", KindMetadataName: "x", KindLabelSyntax: "y", KindOther: "?",
}

func times(texts ...string) []EntryFacts {
	var entries []EntryFacts
	for _, text := range texts {
		entries = append(entries, EntryFacts{Time: at(text)})
	}
	return entries
}

func TestSuspects(t *testing.T) {
	oldBody := "%d errors like: entry for stream '{a=\"b\"}' has timestamp too old: 2026-11-23T11:57:52Z," +
		" oldest acceptable timestamp is: 2026-11-23T11:57:52Z\n"
	newBody := "%d errors like: entry for stream '{a=\"b\"}' has timestamp too new: 2026-11-30T12:08:52Z\n"
	behind := "entry with timestamp 2026-11-30 10:56:52.554833 +0000 UTC ignored, reason: 'entry too far behind, entry timestamp is:" +
		" 2026-11-30T10:56:52Z, oldest acceptable timestamp is: 2026-11-30T10:57:51Z',\n" +
		"user 'u', total ignored: %d out of %d for stream: {%s}\n"
	oldOnes := times("2026-11-22T00:00:00Z", "2026-11-23T11:57:51.999999999Z", "2026-11-23T11:57:52Z",
		"2026-11-23T11:57:52.9Z", "2026-11-23T11:57:53Z")
	newOnes := times("2026-11-30T12:08:51.9Z", "2026-11-30T12:08:52.1Z", "2026-11-30T12:08:52.2Z", "2026-11-30T12:08:53Z",
		"2026-11-30T13:00:00Z")
	behindOnes := times("2026-11-30T10:56:52.554833Z", "2026-11-30T10:57:50Z", "2026-11-30T10:57:51.5Z", "2026-11-30T11:00:00Z")
	sizes := []EntryFacts{{LineBytes: 262144}, {LineBytes: 262145}, {MetadataBytes: 65536, MetadataPairs: 128},
		{MetadataBytes: 65537, MetadataPairs: 129}, {MetadataBytes: 100, MetadataPairs: 1}}

	for _, tc := range []struct {
		name, text string
		entries    []EntryFacts
		want       string
	}{
		{"older than the named second is sure, within it is not", fmt.Sprintf(oldBody, 1), oldOnes, "OOoo-"},
		{"all of the named second", fmt.Sprintf(oldBody, 2), oldOnes, "OOOO-"},
		{"newer than a refused one is sure", fmt.Sprintf(newBody, 1), newOnes, "-nnNN"},
		{"all of the refused second", fmt.Sprintf(newBody, 2), newOnes, "-NNNN"},
		{"the number of the oldest", fmt.Sprintf(behind, 2, 4, `a="b"`), behindOnes, "BB--"},
		{"the number, limit within a second", fmt.Sprintf(behind, 3, 4, `a="b"`), behindOnes, "BBB-"},
		{"not all were seen by the ingester", fmt.Sprintf(behind, 2, 3, `a="b"`), behindOnes, "BBb-"},
		{"a shard's own limit", fmt.Sprintf(behind, 2, 4, `__stream_shard__="3"`), behindOnes, "Bbb-"},
		{"a number that cannot be", fmt.Sprintf(behind, 9, 4, `a="b"`), behindOnes, "BBb-"},
		{"out of order names no limit", "entry with timestamp 2026-11-30 10:56:52.554833 +0000 UTC ignored, reason: 'entry out of order' for stream: {a=\"b\"},\n" +
			"total ignored: 1 out of 3\n", behindOnes, "Bbbb"},
		{"lines", "max entry size '262144' bytes exceeded for stream '{a=\"b\"}' while adding an entry with length '262145' bytes", sizes, "-L---"},
		{"metadata bytes, with room for what Loki adds", "stream '{a=\"b\"}' has structured metadata too large: '65537' bytes, limit: '65536' bytes. Please", sizes, "--sS-"},
		{"metadata pairs", "stream '{a=\"b\"}' has too many structured metadata labels: '129', limit: '128'. Please", sizes, "--mM-"},
		{"metadata disallowed", "stream '{a=\"b\"}' includes structured metadata, but this feature is disallowed. Please", sizes, "--DDD"},
		{"labels are everybody's", "couldn't parse labels: 1:3: parse error", sizes, "YYYYY"},
		{"unknown", "entry for stream '{a=\"b\"}' smells", sizes, "?????"},
		{"sure of one kind beats unsure of another", "1 errors like: max entry size '10' bytes exceeded for stream '{a=\"b\"}' while adding an entry with length '11' bytes; " +
			"1 errors like: entry for stream '{a=\"b\"}' smells", []EntryFacts{{LineBytes: 11}, {LineBytes: 10}}, "L?"},
		{"what Loki looks for first", "1 errors like: max entry size '10' bytes exceeded for stream '{a=\"b\"}' while adding an entry with length '11' bytes; " +
			strings.TrimSpace(fmt.Sprintf(oldBody, 1)), []EntryFacts{{Time: at("2026-11-22T00:00:00Z"), LineBytes: 11}, {Time: at("2026-11-30T00:00:00Z"), LineBytes: 11}}, "OL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := Judge(Answer{Status: 400, ContentType: "text/plain; charset=utf-8", Body: []byte(tc.text)})
			if got := suspectText(&v, tc.entries); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	v := Judge(Answer{Status: 500, Body: []byte("label name is empty\n")})
	if got := suspectText(&v, sizes); got != "--xxx" {
		t.Errorf("metadata name: %s", got)
	}
}

// Suspects leaves what dst held before as it is.
func TestSuspectsAppends(t *testing.T) {
	v := Judge(Answer{Status: 400, Body: []byte("couldn't parse labels: x")})
	got := v.Suspects([]Suspect{{Fault: 7}}, make([]EntryFacts, 1))
	if len(got) != 2 || got[0] != (Suspect{Fault: 7}) || got[1] != (Suspect{Fault: 0, Sure: true}) {
		t.Errorf("%+v", got)
	}
}

func TestLate(t *testing.T) {
	for name, late := range map[string]bool{"too old": true, "too far behind": true, "too new": false, "line too long": false} {
		v := Judge(recordedAnswerNamed(t, name))
		if v.Faults[0].Late() != late {
			t.Errorf("%s: late is %v", name, !late)
		}
	}
}
