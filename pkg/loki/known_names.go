package loki

import (
	"bytes"
	"slices"

	"sf2loki/pkg/record"
)

// knownNames are the names of the metadata of an entry, found good, as most
// entries of a stream have the same: to check and to sort them costs more than
// all else with many.
type knownNames struct {
	text    []byte // the names, one after the other
	ends    []int  // of each, in text
	order   []int  // places in the order of the names; nil: they are in order
	matched bool   // these are the names of the entry that was looked at last
	sorted  []record.Pair
}

// mostKnown bounds the metadata whose names are remembered, in pairs.
const mostKnown = 128

// are tells whether these are the names.
func (k *knownNames) are(metadata []record.Pair) bool {
	k.matched = len(k.ends) == len(metadata)
	from := 0
	for i := 0; k.matched && i < len(metadata); i++ {
		k.matched = bytes.Equal(k.text[from:k.ends[i]], metadata[i].Name)
		from = k.ends[i]
	}
	return k.matched
}

// learn takes names that are good, and all distinct.
func (k *knownNames) learn(metadata []record.Pair) {
	k.text, k.ends, k.order = k.text[:0], k.ends[:0], k.order[:0]
	if len(metadata) > mostKnown || MetadataBytes(metadata) > largeSet {
		return
	}
	k.matched = true
	for i := range metadata {
		k.text = append(k.text, metadata[i].Name...)
		k.ends = append(k.ends, len(k.text))
	}
	if sortedPairs(metadata) {
		return
	}
	for i := range metadata {
		k.order = append(k.order, i)
	}
	slices.SortFunc(k.order, func(a, b int) int { return bytes.Compare(metadata[a].Name, metadata[b].Name) })
}

// inOrder returns the metadata of the entry that was looked at last in the
// order of their names, if they are known. It is valid until the next call.
func (k *knownNames) inOrder(metadata []record.Pair) []record.Pair {
	if !k.matched || len(k.order) != len(metadata) {
		return metadata
	}
	k.sorted = k.sorted[:0]
	for _, i := range k.order {
		k.sorted = append(k.sorted, metadata[i])
	}
	return k.sorted
}
