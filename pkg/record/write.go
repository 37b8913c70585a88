package record

import "strconv"

// AppendRecord appends rec as one line, in the order of sf2loki-record(5).
// Fields that Record has no place for are not kept.
func AppendRecord(dst []byte, rec *Record) []byte {
	return append(appendFields(dst, rec), '}', '\n')
}

// appendFields is AppendRecord without the end.
func appendFields(dst []byte, rec *Record) []byte {
	dst = append(dst, '{')
	start := len(dst)
	if rec.HasTime {
		dst = AppendTime(append(dst, `"ts":"`...), rec.Time)
		dst = strconv.AppendInt(append(dst, `","ts_unix_nano":`...), rec.Time, 10)
	}
	dst = appendPairs(dst, start, `"labels":{`, rec.Labels)
	dst = appendPairs(dst, start, `"structured_metadata":{`, rec.Metadata)
	if rec.EscapedLine != nil {
		dst = append(comma(dst, start), `"line":"`...)
		dst = append(append(dst, rec.EscapedLine...), '"')
	} else {
		dst = appendText(dst, start, `"line":"`, rec.Line)
	}
	dst = appendText(dst, start, `"checkpoint_key":"`, rec.Key)
	if rec.EscapedValue != nil {
		dst = append(comma(dst, start), `"checkpoint_value":"`...)
		dst = append(append(dst, rec.EscapedValue...), '"')
	} else {
		dst = appendText(dst, start, `"checkpoint_value":"`, rec.Value)
	}
	dst = appendText(dst, start, `"origin":"`, rec.Origin)
	if rec.CheckpointOnly {
		dst = append(comma(dst, start), `"checkpoint_only":true`...)
	}
	dst = appendObject(dst, start, `"account":`, rec.Account)
	dst = appendObject(dst, start, `"run":`, rec.Run)
	dst = appendText(dst, start, `"payload_base64":"`, rec.PayloadBase64)
	dst = appendText(dst, start, `"schema_id":"`, rec.SchemaID)
	dst = appendText(dst, start, `"reason":"`, rec.Reason)
	return appendObject(dst, start, `"dead_letter":`, rec.DeadLetter)
}

// comma separates from what the object that begins at start has already.
func comma(dst []byte, start int) []byte {
	if len(dst) > start {
		dst = append(dst, ',')
	}
	return dst
}

func appendText(dst []byte, start int, name string, text []byte) []byte {
	if text == nil {
		return dst
	}
	dst = append(comma(dst, start), name...)
	return append(AppendEscaped(dst, text), '"')
}

func appendObject(dst []byte, start int, name string, object []byte) []byte {
	if object == nil {
		return dst
	}
	return appendCompact(append(comma(dst, start), name...), object)
}

func appendPairs(dst []byte, start int, name string, pairs []Pair) []byte {
	if pairs == nil {
		return dst
	}
	dst = append(comma(dst, start), name...)
	for i := range pairs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendEscaped(append(dst, '"'), pairs[i].Name)
		dst = AppendEscaped(append(dst, '"', ':', '"'), pairs[i].Value)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}
