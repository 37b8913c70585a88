package loki

import (
	"bytes"
	"unicode/utf8"

	"sf2loki/pkg/record"
)

// checkMetadata judges an entry's structured metadata. metadata_too_large and
// metadata_too_many are limits. invalid_metadata is a name that Loki answers
// with a 500 for the whole request (empty, or nothing but underscores once
// normalised), and two names that become one with different values: Loki keeps
// one of the values and says nothing. A pair that merely repeats is let pass,
// and so are names that Loki rewrites (a.b becomes a_b) and values with U+FFFD,
// in which it puts a space: neither loses what the line still holds.
//
// Names that are known from an entry before are not looked at again. known may be
// nil.
func (l *Limits) checkMetadata(metadata []record.Pair, known *knownNames) *Problem {
	if len(metadata) == 0 {
		return nil
	}
	if n := MetadataBytes(metadata); l.MetadataBytes > 0 && n > l.MetadataBytes {
		return problem(record.MetadataTooLarge, "structured metadata of %d bytes, limit %d", n, l.MetadataBytes)
	}
	if l.Metadata > 0 && len(metadata) > l.Metadata {
		return problem(record.MetadataTooMany, "%d pieces of structured metadata, limit %d", len(metadata), l.Metadata)
	}
	if known != nil && known.are(metadata) {
		return nil
	}
	problem, distinct := checkMetadataNames(metadata)
	if problem == nil && distinct && known != nil {
		known.learn(metadata)
	}
	return problem
}

// MetadataBytes is the size of structured metadata as Loki counts it: the
// bytes of all names and values.
func MetadataBytes(metadata []record.Pair) int {
	n := 0
	for i := range metadata {
		n += len(metadata[i].Name) + len(metadata[i].Value)
	}
	return n
}

// checkMetadataNames also tells whether all names are distinct, to Loki too.
func checkMetadataNames(metadata []record.Pair) (_ *Problem, distinct bool) {
	distinct = true
	if len(metadata) > fewPairs {
		return checkManyNames(metadata)
	}
	var textStack [512]byte
	var endStack [fewPairs]int
	names, ends := textStack[:0], endStack[:0] // normalised names, one after the other
	for i := range metadata {
		start := len(names)
		names = appendNormalName(names, metadata[i].Name)
		name := names[start:]
		if onlyUnderscores(name) {
			return nameless(&metadata[i]), false
		}
		from := 0
		for j, end := range ends {
			if bytes.Equal(names[from:end], name) {
				if !bytes.Equal(metadata[j].Value, metadata[i].Value) {
					return oneName(&metadata[j], &metadata[i]), false
				}
				distinct = false
			}
			from = end
		}
		ends = append(ends, len(names))
	}
	return nil, distinct
}

func checkManyNames(metadata []record.Pair) (_ *Problem, distinct bool) {
	distinct = true
	seen := make(map[string]int, len(metadata))
	var name []byte
	for i := range metadata {
		name = appendNormalName(name[:0], metadata[i].Name)
		if onlyUnderscores(name) {
			return nameless(&metadata[i]), false
		}
		j, ok := seen[string(name)]
		switch {
		case !ok:
			seen[string(name)] = i
		case !bytes.Equal(metadata[j].Value, metadata[i].Value):
			return oneName(&metadata[j], &metadata[i]), false
		default:
			distinct = false
		}
	}
	return nil, distinct
}

func nameless(p *record.Pair) *Problem {
	return problem(record.InvalidMetadata, "metadata name %.80q has no letter or digit", p.Name)
}

func oneName(a, b *record.Pair) *Problem {
	return problem(record.InvalidMetadata, "metadata %.80q and %.80q are one name to Loki, with two values", a.Name, b.Name)
}

// appendNormalName appends what Loki makes of a metadata name: every run of
// characters other than ASCII letters and digits becomes one underscore, two
// underscores at both ends stay, and a leading digit gets key_ before it.
func appendNormalName(dst, name []byte) []byte {
	reserved := len(name) >= 4 && bytes.HasPrefix(name, underscores) && bytes.HasSuffix(name, underscores)
	if reserved {
		name = name[2 : len(name)-2]
		dst = append(dst, underscores...)
	} else if len(name) > 0 && isDigit(name[0]) {
		dst = append(dst, "key_"...)
	}
	wasUnderscore := false
	for i := 0; i < len(name); {
		c := name[i]
		if isLetter(c) || isDigit(c) {
			dst = append(dst, c)
			wasUnderscore = false
			i++
			continue
		}
		if !wasUnderscore {
			dst = append(dst, '_')
			wasUnderscore = true
		}
		if c < utf8.RuneSelf {
			i++
			continue
		}
		_, n := utf8.DecodeRune(name[i:])
		i += n
	}
	if reserved {
		dst = append(dst, underscores...)
	}
	return dst
}

var underscores = []byte("__")

// onlyUnderscores is true of an empty name as well.
func onlyUnderscores(name []byte) bool {
	for _, c := range name {
		if c != '_' {
			return false
		}
	}
	return true
}
