"""Between protobuf and the domain. Pure: decoding raises InvalidInput naming the field, encoding never fails."""
