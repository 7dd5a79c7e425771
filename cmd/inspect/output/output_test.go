package output

import (
	"strings"
	"testing"
)

func TestWriteList(t *testing.T) {
	for format, want := range map[string]string{
		"json": "{\n    \"kind\": \"List\",\n    \"items\": [\n        1\n    ],\n    \"summary\": \"one\"\n}\n",
		"yaml": "items:\n- 1\nkind: List\nsummary: one\n",
	} {
		var out strings.Builder
		if err := WriteList(&out, format, []int{1}, "one"); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, not %q", format, out.String(), err, want)
		}
	}
}

func TestFormatsAreChecked(t *testing.T) {
	for _, format := range append(Table, "") {
		if err := Table.Check(format); err != nil {
			t.Errorf("%q: %v", format, err)
		}
	}
	if err := Table.Check("xml"); err == nil || err.Error() != "-o xml: use wide, json or yaml" {
		t.Errorf("xml: %v", err)
	}
	if err := JSON.Check("xml"); err == nil || err.Error() != "-o xml: use json" {
		t.Errorf("xml: %v", err)
	}
}
