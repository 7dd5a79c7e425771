package nft

import (
	"errors"
	"io/fs"
	"testing"

	"kube-vmap/model"
)

func TestTablesOfAnotherOwnerAreNotWritable(t *testing.T) {
	for name, tt := range map[string]struct {
		table              *Table
		foreign, ownerless bool
	}{
		"no table":               {nil, false, false},
		"table without owner":    {&Table{}, false, true},
		"table whose owner left": {&Table{Protected: true}, false, true},
		"own table":              {&Table{Protected: true, Owner: 7}, false, false},
		"table of another owner": {&Table{Protected: true, Owner: 8}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			tables := Tables{model.IPv6: tt.table}.MarkForeign(7)
			if err := tables.Writable(); errors.Is(err, fs.ErrPermission) != tt.foreign || (err != nil) != tt.foreign {
				t.Errorf("writing is refused: %v, want %t", err, tt.foreign)
			}
			if got := tables.Orphaned(); got != tt.ownerless {
				t.Errorf("there is a table without owner: %t, want %t", got, tt.ownerless)
			}
		})
	}
}
