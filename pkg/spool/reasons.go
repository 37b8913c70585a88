package spool

import "sf2loki/pkg/record"

// Explanation is what a person needs to know about a reason.
type Explanation struct {
	Reason  record.Reason
	Meaning string
	Cure    string
}

// explanations explain the reasons, in the order of sf2loki-deadletter(5), which
// says more about each.
var explanations = []Explanation{
	{record.LineTooLong, "the line is longer than Loki takes",
		"shorten it on the way (jq in the command of run), or raise max_line_size and replay"},
	{record.TooOld, "the entry is older than Loki takes",
		"replay with --ts now or --ts clamp, or with loki-push --backfill-shard, or raise reject_old_samples_max_age"},
	{record.TooNew, "the entry lies too far in the future",
		"set the clock of whoever wrote it; replay once its time has come, or with --ts now"},
	{record.TooFarBehind, "the entry is too far behind the newest of its stream",
		"replay with loki-push's hour label, or with --stream-label and --order event"},
	{record.InvalidLabels, "the labels are not what Loki takes",
		"correct them on the way (jq in the command of run), or move some to the metadata with loki-push --allow-label"},
	{record.InvalidMetadata, "a piece of structured metadata has no usable name, or its name twice",
		"rename or remove it on the way (jq in the command of run)"},
	{record.MetadataDisallowed, "Loki does not take structured metadata",
		"set allow_structured_metadata in Loki and replay"},
	{record.MetadataTooLarge, "the structured metadata is larger than Loki takes",
		"ask for fewer --metadata-fields, remove some on the way, or raise max_structured_metadata_size"},
	{record.MetadataTooMany, "there are more pieces of structured metadata than Loki takes",
		"ask for fewer --metadata-fields, remove some on the way, or raise max_structured_metadata_entries_count"},
	{record.Oversized, "the entry alone is larger than a request may be",
		"shorten it on the way, or raise the limits of Loki and of the proxies before it"},
	{record.BadRequest, "Loki refused the entry for another reason: the detail has its words",
		"read the detail, remove the cause, replay"},
	{record.Budget, "the day's budget was used up",
		"replay when there is room in it"},
	{record.TruncatedCopy, "the line as it was before it was cut to fit; the cut one is in Loki",
		"raise max_line_size and --max-line-bytes, then replay with --reason truncated_copy"},
	{record.InvalidRecord, "an object in the stream was no record",
		"mend the program that wrote it, or the record on the way"},
	{record.DecodeError, "a payload could not be decoded; it is in payload_base64",
		"decode it with the schema of schema_id and make a record of it"},
	{record.SourceGap, "a file, a body or a span that could not be fetched",
		"run the command that the detail names, while the source still has it"},
}

// Reasons are the reasons of the closed set.
func Reasons() []Explanation { return append([]Explanation(nil), explanations...) }

// Explain explains a reason; ok is false for one that is not of the set.
func Explain(reason record.Reason) (e Explanation, ok bool) {
	for _, e := range explanations {
		if e.Reason == reason {
			return e, true
		}
	}
	return Explanation{}, false
}
