// The cursor that all decoders share.
