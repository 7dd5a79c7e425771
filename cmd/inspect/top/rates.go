package top

// rate sets the rates of the rows. A new row has none: its connections may be old.
func (s *Sheet) rate(before *Sheet) {
	if before == nil || !s.counted || !before.counted {
		return
	}
	for i := range s.rows {
		r := &s.rows[i]
		last := before.find(r.id)
		if last == nil {
			continue
		}
		for k := range r.counts {
			c := &r.counts[k]
			if was := lookUp(last.counts, c.counter, k); was != nil {
				c.since(was)
			}
			r.rate += c.rate
			r.rated = r.rated || c.rated
		}
	}
}

// since sets the rate since the last read; if it is the same one, the rate stays. A counter
// that decreased has begun again from zero.
func (c *count) since(last *count) {
	took := c.at.Sub(last.at)
	switch {
	case took == 0:
		c.rate, c.rated = last.rate, last.rated
	case took > 0:
		grown := c.n
		if c.n >= last.n {
			grown -= last.n
		}
		c.rate, c.rated = float64(grown)/took.Seconds(), true
	}
}

// lookUp finds a counter, which is usually at its former index; nil if it is new.
func lookUp(counts []count, what counterID, likely int) *count {
	if likely < len(counts) && counts[likely].counter == what {
		return &counts[likely]
	}
	for i := range counts {
		if counts[i].counter == what {
			return &counts[i]
		}
	}
	return nil
}
