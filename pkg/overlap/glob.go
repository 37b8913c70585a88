package overlap

import (
	"slices"
	"strings"

	"sf2loki/pkg/fnmatch"
)

// meet tells whether some text fits both patterns. Case does not matter. Of two
// sets of characters it is taken that they have one in common.
func meet(a, b string) bool {
	p, q := tokens(strings.ToLower(a)), tokens(strings.ToLower(b))
	// row[j]: some text fits the first i tokens of p and the first j of q.
	row := make([]bool, len(q)+1)
	row[0] = true
	for j := 1; j <= len(q); j++ {
		row[j] = row[j-1] && q[j-1] == "*"
	}
	for i := 1; i <= len(p); i++ {
		before := row[0]
		row[0] = row[0] && p[i-1] == "*"
		for j := 1; j <= len(q); j++ {
			above := row[j]
			if p[i-1] == "*" || q[j-1] == "*" {
				row[j] = above || row[j-1] // a star takes nothing, or what the other has there
			} else {
				row[j] = before && sameCharacter(p[i-1], q[j-1])
			}
			before = above
		}
	}
	return row[len(q)]
}

// tokens splits a pattern into what stands for characters: "*", "?", a set with
// its brackets, or the character itself.
func tokens(pattern string) []string {
	var out []string
	for pattern != "" {
		n := 1
		if pattern[0] == '[' {
			n = max(n, fnmatch.SetEnd(pattern))
		}
		out, pattern = append(out, pattern[:n]), pattern[n:]
	}
	return out
}

func sameCharacter(a, b string) bool {
	return a == b || len(a) > 1 || len(b) > 1 || a == "?" || b == "?"
}

// without gives patterns for what is left of the texts that fit a pattern and
// begin with prefix and end in suffix, when both are taken off.
func without(prefix, pattern, suffix string) []string {
	var out []string
	for _, p := range cut(tokens(strings.ToLower(pattern)), strings.ToLower(suffix)) {
		for _, q := range cut(reversed(p), string(reversed([]byte(strings.ToLower(prefix))))) {
			out = append(out, strings.Join(reversed(q), ""))
		}
	}
	return out
}

func reversed[T any](list []T) []T {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// cut takes a suffix off a pattern, in every way in which it may fit.
func cut(p []string, suffix string) [][]string {
	if suffix == "" {
		return [][]string{p}
	}
	if len(p) == 0 {
		return nil
	}
	last, rest := p[len(p)-1], suffix[:len(suffix)-1]
	if last == "*" {
		// The star takes what is left of the suffix, or nothing more of it.
		return append(cut(p[:len(p)-1], suffix), cut(p, rest)...)
	}
	if sameCharacter(last, suffix[len(suffix)-1:]) {
		return cut(p[:len(p)-1], rest)
	}
	return nil
}
