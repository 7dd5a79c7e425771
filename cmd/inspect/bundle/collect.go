package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds of one part: whatever a cluster holds, an archive must come to an end.
const (
	mostBytes = 256 << 20
	patience  = time.Minute
)

// errLong is that a part was cut off.
var errLong = fmt.Errorf("cut off after %d MiB", mostBytes>>20)

// content is what became of a part.
type content struct {
	text bytes.Buffer
	err  error
}

// collect runs a part.
func collect(ctx context.Context, p Part) *content {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := &content{}
	c.err = p.Write(ctx, bounded{c})
	return c
}

// bounded writes into a content as long as there is room.
type bounded struct{ *content }

func (b bounded) Write(p []byte) (int, error) {
	room := mostBytes - b.text.Len()
	if len(p) <= room {
		return b.text.Write(p)
	}
	n, err := b.text.Write(p[:room])
	return n, errors.Join(err, errLong)
}
