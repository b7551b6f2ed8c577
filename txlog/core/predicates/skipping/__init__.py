"""Pure: may this file, row group or partition hold a matching row?"""
