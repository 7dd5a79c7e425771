package attr

// Userdata returns the value of a kind in the user data of an object of nf_tables, nil if it
// has none. User data is opaque to the kernel; nft writes it as a list of type, length (one
// byte each) and value.
func Userdata(b []byte, kind byte) []byte {
	for len(b) >= 2 {
		n := 2 + int(b[1])
		if len(b) < n {
			return nil
		}
		if b[0] == kind {
			return b[2:n:n]
		}
		b = b[n:]
	}
	return nil
}
