package lokitest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// normalizeName rewrites the name of a piece of structured metadata.
func normalizeName(name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("label name is empty")
	}
	if len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") && isLabelName(name) {
		return name, nil
	}
	var b strings.Builder
	last := rune(0)
	for _, c := range name {
		if !isLetter(c) && (c < '0' || c > '9') {
			c = '_'
		}
		if c != '_' || last != '_' {
			b.WriteRune(c)
		}
		last = c
	}
	clean := b.String()
	switch {
	case clean == "_":
		return "", fmt.Errorf("normalization for label name %q resulted in invalid name %q", name, clean)
	case '0' <= clean[0] && clean[0] <= '9':
		clean = "key_" + clean
	}
	return clean, nil
}

// normalize does to an entry's metadata what Loki does: of equal names the last
// wins, and one that was rewritten wins over one that was not; pairs without a
// value go.
func normalize(metadata []Label) ([]Label, error) {
	if out := slices.Clone(metadata); isNormal(out) {
		return out, nil
	}
	values := map[string]string{}
	for _, rewritten := range []bool{false, true} {
		for _, l := range metadata {
			name, err := normalizeName(l.Name)
			if err != nil {
				return nil, err
			}
			if rewritten == (name != l.Name) {
				values[name] = cleanValue(l.Value)
			}
		}
	}
	out := make([]Label, 0, len(values)+1)
	for name, value := range values {
		if value != "" {
			out = append(out, Label{name, value})
		}
	}
	sortLabels(out)
	return out, nil
}

// isNormal sorts metadata and tells whether that is all there is to do.
func isNormal(metadata []Label) bool {
	sortLabels(metadata)
	for i, l := range metadata {
		if !isLabelName(l.Name) || strings.Contains(l.Name, "__") || l.Name == "_" || l.Value == "" || cleanValue(l.Value) != l.Value ||
			i > 0 && l.Name == metadata[i-1].Name {
			return false
		}
	}
	return true
}

// cleanValue puts a space in the place of what is not UTF-8, and of U+FFFD.
func cleanValue(s string) string {
	if utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}

// addServiceName adds the label that Loki derives from others.
func addServiceName(labels []Label, from []string) []Label {
	if len(from) == 0 {
		return labels
	}
	byName := map[string]string{}
	for _, l := range labels {
		byName[l.Name] = l.Value
	}
	if _, ok := byName["service_name"]; ok {
		return labels
	}
	name := "unknown_service"
	for _, candidate := range from {
		if v := byName[candidate]; v != "" {
			name = v
			break
		}
	}
	labels = append(labels[:len(labels):len(labels)], Label{"service_name", name})
	sortLabels(labels)
	return labels
}

var (
	levelNames = []string{
		"level", "LEVEL", "Level", "log.level", "severity", "SEVERITY", "Severity",
		"SeverityText", "lvl", "LVL", "Lvl", "severity_text", "Severity_Text", "SEVERITY_TEXT",
	}
	levels = map[string]string{
		"trace": "trace", "trc": "trace", "debug": "debug", "dbg": "debug", "info": "info", "inf": "info", "information": "info",
		"warn": "warn", "wrn": "warn", "warning": "warn", "error": "error", "err": "error", "critical": "critical", "fatal": "fatal",
	}
	logfmtLevel = regexp.MustCompile(`(?i)(?:^|\s)(?:level|lvl|severity)="?([a-z]+)`)
	wordLevel   = regexp.MustCompile(`(?i)\b(trace|debug|info|warn|warning|error|err|critical|fatal)\b`)
)

// addDetectedLevel adds the piece of metadata that Loki derives from the rest.
func addDetectedLevel(metadata, labels []Label, line string) []Label {
	for _, l := range metadata {
		if l.Name == "detected_level" {
			return metadata
		}
	}
	metadata = append(metadata, Label{"detected_level", detectLevel(metadata, labels, line)})
	sortLabels(metadata)
	return metadata
}

func detectLevel(metadata, labels []Label, line string) string {
	for _, from := range [][]Label{metadata, labels} {
		for _, l := range from {
			if slices.Contains(levelNames, l.Name) {
				if level := levels[strings.ToLower(l.Value)]; level != "" {
					return level
				}
				return l.Value
			}
		}
	}
	if strings.HasPrefix(line, "{") {
		var object map[string]any
		if json.Unmarshal([]byte(line), &object) == nil {
			for _, name := range levelNames {
				if v, ok := object[name].(string); ok && levels[strings.ToLower(v)] != "" {
					return levels[strings.ToLower(v)]
				}
			}
			return "unknown"
		}
	}
	for _, expr := range []*regexp.Regexp{logfmtLevel, wordLevel} {
		if m := expr.FindStringSubmatch(line); m != nil && levels[strings.ToLower(m[1])] != "" {
			return levels[strings.ToLower(m[1])]
		}
	}
	return "unknown"
}
