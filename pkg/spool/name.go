package spool

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	dataSuffix     = ".ndjson"
	journalSuffix  = ".journal"
	failedSuffix   = ".failed"
	replayedSuffix = ".replayed"

	dateLayout  = "20060102"
	maxInstance = 120 // leaves room for date, number and suffixes in a name of 255 bytes
)

// cleanInstance makes an instance's name fit to begin a file name.
func cleanInstance(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if len(clean) > maxInstance {
		clean = clean[:maxInstance]
	}
	if clean == "" {
		return "sf2loki"
	}
	if clean[0] == '.' || clean[0] == '-' { // neither hidden nor taken for a flag
		clean = "_" + clean[1:]
	}
	return clean
}

// fileName is the name of a capture file.
func fileName(instance string, day time.Time, number int) string {
	return fmt.Sprintf("%s-%s-%06d%s", instance, day.UTC().Format(dateLayout), number, dataSuffix)
}

// numberOf tells the number in a name of the instance's and the day's, whatever
// follows the stem: as long as any file of a stem is there, its number is taken.
func numberOf(name, instance string, day time.Time) (int, bool) {
	rest, ok := strings.CutPrefix(name, instance+"-"+day.UTC().Format(dateLayout)+"-")
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, ".")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0
}

// spoolFile reports whether a name in a spool directory is one of ours.
func spoolFile(name string) bool {
	base, _ := splitName(strings.TrimSuffix(name, journalSuffix))
	stem, ok := strings.CutSuffix(base, dataSuffix)
	if !ok || strings.HasPrefix(name, ".") {
		return false
	}
	_, day, number := stemParts(stem)
	_, err := time.Parse(dateLayout, day)
	return err == nil && number > 0
}

// stemParts takes apart what stands before .ndjson: of another's file, as far as
// it looks like one of ours.
func stemParts(stem string) (instance, day string, number int) {
	rest, digits := cutLast(stem)
	instance, day = cutLast(rest)
	number, err := strconv.Atoi(digits)
	if err != nil {
		number = 0
	}
	return instance, day, number
}

// cutLast cuts around the last hyphen; without one all is before it.
func cutLast(s string) (before, after string) {
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// kind is what a data file of a group is, by its name.
type kind struct {
	failed   bool // records that a replay brought back refused
	replayed bool // nothing is left to do
}

// splitName takes a data file's name or path apart.
func splitName(path string) (base string, k kind) {
	base, k.replayed = strings.CutSuffix(path, replayedSuffix)
	base, k.failed = strings.CutSuffix(base, failedSuffix)
	if filepath.Base(base) == "." || base == "" || strings.HasSuffix(base, "/") {
		return path, kind{} // a file called ".failed" is just a file
	}
	return base, k
}

// journalOf is the journal of a data file: it stays where it is when the file
// is renamed.
func journalOf(path string) string {
	return strings.TrimSuffix(path, replayedSuffix) + journalSuffix
}
