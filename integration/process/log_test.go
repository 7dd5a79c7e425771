package process

import (
	"maps"
	"testing"
)

func TestEntriesHaveTheFieldsOfTheirLines(t *testing.T) {
	for _, c := range []struct {
		line string
		want Entry
	}{
		{`time=2026-01-02T03:04:05.000Z level=INFO msg=ready services=7`, Entry{"time": "2026-01-02T03:04:05.000Z", "level": "INFO", "msg": "ready", "services": "7"}},
		{`level=WARN msg="a change was refused" err="add \"x\" = y: no"`, Entry{"level": "WARN", "msg": "a change was refused", "err": `add "x" = y: no`}},
		{`level=INFO msg="" err=`, Entry{"level": "INFO", "msg": "", "err": ""}},
		{`{"level":"INFO","msg":"ready","services":7,"ips":["a","b"]}`, Entry{"level": "INFO", "msg": "ready", "services": "7", "ips": `["a","b"]`}},
		{`panic: runtime error, x=1`, Entry{"msg": "panic: runtime error, x=1"}},
		{``, Entry{"msg": ""}},
	} {
		var j Log
		for _, b := range []byte(c.line + "\n") { // in the smallest pieces
			if _, err := j.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if got := j.Entries(0); len(got) != 1 || !maps.Equal(got[0], c.want) {
			t.Errorf("%s\nis %q, want %q", c.line, got, c.want)
		}
		if got := j.Find(0, c.want.Message()); len(got) != 1 {
			t.Errorf("%s\nis not found by its message", c.line)
		}
	}
}
