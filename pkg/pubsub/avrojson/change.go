package avrojson

import "slices"

// findHeader prepares the header of a change event, field i of the root. Its
// lists of fields come as bitmaps over the fields of the root.
func (s *Schema) findHeader(i int) {
	header := recordOf(s.root.fields[i].node)
	if header == nil {
		return
	}
	s.header = i
	for j := range header.fields {
		f := &header.fields[j]
		switch f.name {
		case "nulledFields", "diffFields", "changedFields":
			f.node = asFieldList(f.node)
		case "commitTimestamp":
			s.commit = j
		}
	}
}

// asFieldList is n, with an array of strings in it read as a list of fields.
func asFieldList(n *node) *node {
	switch {
	case n.kind == kindArray && n.items.kind == kindString:
		return &node{kind: kindFieldList}
	case n.kind == kindUnion:
		branches := slices.Clone(n.branches)
		for i, b := range branches {
			branches[i] = asFieldList(b)
		}
		return &node{kind: kindUnion, branches: branches}
	}
	return n
}

// recordOf is the record that n is or may be; nil: none.
func recordOf(n *node) *node {
	switch n.kind {
	case kindRecord:
		return n
	case kindUnion:
		for _, b := range n.branches {
			if b.kind == kindRecord {
				return b
			}
		}
	}
	return nil
}

// appendFields appends the names that one element of a list of fields stands
// for, each as a JSON string with a comma behind it: 0x... has a bit for each
// field of the root, 6-0x... one for each child of its field 6. Bit 0 is the
// last one written. What is neither is a name itself.
func (s *Schema) appendFields(dst, element []byte) []byte {
	if digits, ok := hexDigits(element); ok {
		for i := range setBits(digits, len(s.names)) {
			dst = appendName(dst, s.names[i], nil)
		}
		return dst
	}
	parent, digits, ok := s.compound(element)
	if !ok {
		return appendText(dst, element)
	}
	children := recordOf(s.root.fields[parent].node).fields
	n := 0
	for range setBits(digits, len(children)) {
		n++
	}
	if n == len(children) && n > 0 {
		return appendName(dst, s.names[parent], nil)
	}
	for i := range setBits(digits, len(children)) {
		dst = appendName(dst, s.names[parent], children[i].prefix)
	}
	return dst
}

// appendName appends a field's name, or Parent.Child: prefix is that of the
// child, which has its name, escaped, between `{"` and `":`.
func appendName(dst, name, prefix []byte) []byte {
	dst = append(append(dst, '"'), name...)
	if prefix != nil {
		dst = append(append(dst, '.'), prefix[2:len(prefix)-2]...)
	}
	return append(dst, '"', ',')
}

// hexDigits takes 0x off a hexadecimal number.
func hexDigits(text []byte) ([]byte, bool) {
	if len(text) < 3 || text[0] != '0' || text[1] != 'x' {
		return nil, false
	}
	for _, c := range text[2:] {
		if hexValue(c) < 0 {
			return nil, false
		}
	}
	return text[2:], true
}

func hexValue(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

// compound takes apart 6-0x0180 when field 6 is a record.
func (s *Schema) compound(element []byte) (parent int, digits []byte, ok bool) {
	at := 0
	for at < len(element) && at < 6 && '0' <= element[at] && element[at] <= '9' {
		parent = parent*10 + int(element[at]-'0')
		at++
	}
	if at == 0 || at == len(element) || element[at] != '-' || parent >= len(s.names) {
		return 0, nil, false
	}
	digits, ok = hexDigits(element[at+1:])
	return parent, digits, ok && recordOf(s.root.fields[parent].node) != nil
}

// setBits gives the numbers below n of the bits that are set, in order. The
// number may have any length.
func setBits(digits []byte, n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for k := 0; k < len(digits) && 4*k < n; k++ {
			v := hexValue(digits[len(digits)-1-k])
			for bit := range 4 {
				if i := 4*k + bit; v>>bit&1 == 1 && i < n && !yield(i) {
					return
				}
			}
		}
	}
}
